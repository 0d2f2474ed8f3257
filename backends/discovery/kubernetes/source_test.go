package kubernetes

import (
	"context"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/typed/discovery/v1/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/backends/discovery"
	"github.com/warmroute/warmroute/backends/discovery/discoverytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func podRef(uid string) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Pod", Name: "pod-" + uid, UID: types.UID(uid)}
}

// soon makes a source retry and repeat quickly.
func soon(s *Source) *Source {
	s.retry = wait.Backoff{Duration: 20 * time.Millisecond, Factor: 1.5, Steps: 3, Cap: 100 * time.Millisecond}
	s.repeat = 100 * time.Millisecond
	return s
}

func source(t *testing.T, c Config) *Source {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return soon(s)
}

// httpWorld is the API over HTTP.
type httpWorld struct{ *double }

func (w *httpWorld) Source(t *testing.T) discovery.Source {
	t.Helper()
	return source(t, Config{APIServer: w.server.URL, Namespace: namespace, Service: service})
}

func (w *httpWorld) Name(t *testing.T, addresses ...string) {
	t.Helper()
	w.put(slicesOf(t, addresses...)...)
	w.answer(0)
}

func (w *httpWorld) Break(*testing.T) { w.answer(http.StatusInternalServerError) }

func TestConformanceOverHTTP(t *testing.T) {
	for name, streams := range map[string]bool{"lists": false, "streams": true} {
		t.Run(name, func(t *testing.T) {
			discoverytest.Run(t, func(t *testing.T) discoverytest.World { return &httpWorld{newDouble(t, streams)} })
		})
	}
}

// fakeWorld is client-go's fake API.
type fakeWorld struct {
	*fake.FakeDiscoveryV1
	tracker clienttesting.ObjectTracker

	mu      sync.Mutex
	broken  bool
	watches []watch.Interface
	names   map[string]bool
}

func newFakeWorld(t *testing.T) *fakeWorld {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := discoveryv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	w := &fakeWorld{names: make(map[string]bool)}
	w.tracker = clienttesting.NewObjectTracker(scheme, nil)
	w.FakeDiscoveryV1 = &fake.FakeDiscoveryV1{Fake: &clienttesting.Fake{}}
	w.AddReactor("list", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.broken {
			return true, nil, errors.New("broken")
		}
		return clienttesting.ObjectReaction(w.tracker)(a)
	})
	w.AddWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.broken {
			return true, nil, errors.New("broken")
		}
		events, err := w.tracker.Watch(a.GetResource(), a.GetNamespace())
		w.watches = append(w.watches, events)
		return true, events, err
	})
	return w
}

// fakeAPI is the fake without what it cannot do: watches that bring what there is.
type fakeAPI struct{ api }

func (f fakeAPI) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if o.SendInitialEvents != nil {
		return nil, apierrors.NewBadRequest("sendInitialEvents is not supported")
	}
	return f.api.Watch(ctx, o)
}

func (w *fakeWorld) Source(t *testing.T) discovery.Source {
	t.Helper()
	s := source(t, Config{Namespace: namespace, Service: service})
	s.connect = func() (api, func(), error) { return fakeAPI{w.EndpointSlices(namespace)}, func() {}, nil }
	return s
}

func (w *fakeWorld) Name(t *testing.T, addresses ...string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = false
	resource := discoveryv1.SchemeGroupVersion.WithResource("endpointslices")
	names := make(map[string]bool)
	for _, s := range slicesOf(t, addresses...) {
		names[s.Name] = true
		put := w.tracker.Create
		if w.names[s.Name] {
			if err := w.tracker.Update(resource, s, namespace); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := put(resource, s, namespace); err != nil {
			t.Fatal(err)
		}
	}
	for name := range w.names {
		if !names[name] {
			if err := w.tracker.Delete(resource, namespace, name); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.names = names
}

func (w *fakeWorld) Break(*testing.T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = true
	for _, one := range w.watches {
		one.Stop()
	}
	w.watches = nil
}

func TestConformanceOfTheFake(t *testing.T) {
	discoverytest.Run(t, func(t *testing.T) discoverytest.World { return newFakeWorld(t) })
}

// heard is what a source told last.
type heard struct {
	t *testing.T

	mu   sync.Mutex
	list []backends.Spec
	err  error
}

// follow runs a source until the test ends.
func follow(t *testing.T, s *Source) *heard {
	t.Helper()
	h := &heard{t: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(t.Context(), func(list []backends.Spec, err error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.err = err
			if list != nil || err == nil {
				h.list = list
			}
		})
	}()
	t.Cleanup(func() { <-ended })
	return h
}

// show writes backends as slicesOf reads them; "!" stands for both that are not ready.
func show(list []backends.Spec) string {
	var all []string
	for _, s := range list {
		text := strings.TrimPrefix(s.URL, "http://")
		if s.Unready {
			text = "!" + text
		}
		if s.Instance != "" {
			text += "=" + s.Instance
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

func (h *heard) until(what string, holds func() bool) {
	h.t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		h.mu.Lock()
		ok, list, err := holds(), show(h.list), h.err
		h.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(end) {
			h.t.Fatalf("%s did not come: the last was %q, %v", what, list, err)
		}
	}
}

func (h *heard) expect(want string) {
	h.t.Helper()
	h.until(want, func() bool { return show(h.list) == want && h.err == nil })
}

func (h *heard) expectError(want string) {
	h.t.Helper()
	h.until(want, func() bool { return h.err != nil && strings.Contains(h.err.Error(), want) })
}

// TestDI01 and TestDI03: an endpoint that terminates, or is not ready, is named as such
// while it is there, and the pods are told apart by their uids.
func TestDI01TerminatingEndpoints(t *testing.T) {
	d := newDouble(t, true)
	h := follow(t, source(t, Config{APIServer: d.server.URL, Namespace: namespace, Service: service}))
	d.put(slicesOf(t, "10.0.0.1:8000=a", "10.0.0.2:8000=b")...)
	h.expect("10.0.0.1:8000=a 10.0.0.2:8000=b")
	d.put(slicesOf(t, "~10.0.0.1:8000=a", "10.0.0.2:8000=b", "!10.0.0.3:8000=c")...)
	h.expect("!10.0.0.1:8000=a 10.0.0.2:8000=b !10.0.0.3:8000=c")
	d.put(slicesOf(t, "10.0.0.2:8000=b", "10.0.0.3:8000=c")...)
	h.expect("10.0.0.2:8000=b 10.0.0.3:8000=c")
	if lists, watches := d.count("list"), d.count("watch"); lists != 0 || watches != 1 {
		t.Errorf("%d lists and %d watches, want one watch that brings all", lists, watches)
	}
}

func TestDI03NotReadyEndpoints(t *testing.T) {
	d := newDouble(t, false)
	h := follow(t, source(t, Config{APIServer: d.server.URL, Namespace: namespace, Service: service}))
	d.put(slicesOf(t, "!10.0.0.1:8000=a")...)
	h.expect("!10.0.0.1:8000=a")
	d.put(slicesOf(t, "10.0.0.1:8000=a")...)
	h.expect("10.0.0.1:8000=a")
	d.put(slicesOf(t, "10.0.0.1:8000=b")...) // another pod at its address
	h.expect("10.0.0.1:8000=b")
}

// A watch whose place is forgotten begins anew with a list, and nothing is missed.
func TestExpiredWatches(t *testing.T) {
	for name, streams := range map[string]bool{"lists": false, "streams": true} {
		t.Run(name, func(t *testing.T) {
			d := newDouble(t, streams)
			h := follow(t, source(t, Config{APIServer: d.server.URL, Namespace: namespace, Service: service}))
			d.put(slicesOf(t, "10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000")...)
			h.expect("10.0.0.1:8000 10.0.0.2:8000 10.0.0.3:8000")
			d.answer(http.StatusInternalServerError)
			h.expectError("500")
			d.put(slicesOf(t, "10.0.0.4:8000")...)
			d.forget()
			d.answer(0)
			h.expect("10.0.0.4:8000")
		})
	}
}

// What the API refuses is told with what to change.
func TestRefusals(t *testing.T) {
	for status, want := range map[int]string{
		http.StatusForbidden:       "the Kubernetes API answers 403, as you wish: the router's account must be allowed to list and watch endpointslices",
		http.StatusTooManyRequests: "the Kubernetes API answers 429",
		http.StatusNotFound:        "the Kubernetes API answers 404",
	} {
		d := newDouble(t, true)
		d.put(slicesOf(t, "10.0.0.1:8000")...)
		d.answer(status)
		h := follow(t, source(t, Config{APIServer: d.server.URL, Namespace: namespace, Service: service}))
		h.expectError(want)
		d.answer(0)
		h.expect("10.0.0.1:8000")
	}
	d := newDouble(t, true)
	d.close()
	h := follow(t, source(t, Config{APIServer: d.server.URL, Namespace: namespace, Service: service}))
	h.expectError("connection refused")
}

// A server that says nothing holds nobody up who wants to end.
func TestHungServer(t *testing.T) {
	d := newDouble(t, false)
	d.hang()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		source(t, Config{APIServer: d.server.URL, Namespace: namespace, Service: service}).Run(ctx, func(list []backends.Spec, err error) {
			t.Errorf("told %v, %v", list, err)
		})
	}()
	for d.count("list")+d.count("watch") == 0 {
		time.Sleep(5 * time.Millisecond)
	}
	cancel()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("Run does not return")
	}
}

// Over TLS and HTTP/2, with a token and a private CA from files.
func TestTLSAndTokens(t *testing.T) {
	d := unstarted(true)
	d.server = httptest.NewUnstartedServer(d)
	d.server.EnableHTTP2 = true
	d.token = "first"
	d.server.StartTLS()
	t.Cleanup(d.close)
	dir := t.TempDir()
	ca, token := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "token")
	write := func(name string, data []byte) {
		t.Helper()
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: d.server.Certificate().Raw}))
	write(token, []byte("wrong\n"))
	d.put(slicesOf(t, "10.0.0.1:8000")...)
	c := Config{APIServer: d.server.URL, Namespace: namespace, Service: service, TokenFile: token, CAFile: ca}
	follow(t, source(t, c)).expectError("the Kubernetes API answers 401, Unauthorized: the router's account")
	write(token, []byte("first\n"))
	follow(t, source(t, c)).expect("10.0.0.1:8000")
	c.CAFile = ""
	follow(t, source(t, c)).expectError("certificate signed by unknown authority")
}

// Outside of a cluster there is no API to ask, which is told like any other failure.
func TestOutsideOfACluster(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	h := follow(t, source(t, Config{Namespace: namespace, Service: service}))
	h.expectError("this is no pod of a cluster: name the API with api_server")
}

func TestConfig(t *testing.T) {
	for want, c := range map[string]Config{
		"":                      {Service: "vllm"},
		"service: is missing":   {},
		`service: "a b" is not`: {Service: "a b"},
		`namespace: "A" is not the name of a namespace`:              {Service: "a", Namespace: "A"},
		`port: "80/tcp" is not the name or number of a port`:         {Service: "a", Port: "80/tcp"},
		"api_server: is missing: token_file and ca_file are for it":  {Service: "a", TokenFile: "t"},
		"api_server: want https://host:port, without credentials":    {Service: "a", APIServer: "k8s:6443"},
		"namespace: is missing: with api_server there is no default": {Service: "a", APIServer: "https://k8s:6443"},
		"token_file: would be sent unencrypted":                      {Service: "a", Namespace: "n", APIServer: "http://k8s:6443", TokenFile: "t"},
		`data_parallel_ranks: -1 is not in 0..1024`:                  {Service: "a", Form: discovery.Form{DataParallelRanks: -1}},
		`scheme: "ftp" is not http or https`:                         {Service: "a", Namespace: "n", APIServer: "http://k8s", Form: discovery.Form{Scheme: "ftp"}},
	} {
		_, err := New(c)
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
}

func TestSpecs(t *testing.T) {
	with := func(s *discoveryv1.EndpointSlice, change func(*discoveryv1.EndpointSlice)) *discoveryv1.EndpointSlice {
		change(s)
		return s
	}
	one := func(address string) *discoveryv1.EndpointSlice { return slicesOf(t, address)[0] }
	twoPorts := func(s *discoveryv1.EndpointSlice) {
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: new("metrics"), Port: new(int32(9000))})
	}
	udp := corev1.ProtocolUDP
	for name, c := range map[string]struct {
		slices []*discoveryv1.EndpointSlice
		port   string
		want   string
		err    string
	}{
		"nothing":      {},
		"no endpoints": {slices: []*discoveryv1.EndpointSlice{newSlice("a", "10.0.0.1", "8000")}},
		"by name":      {slices: []*discoveryv1.EndpointSlice{with(one("10.0.0.1:8000"), twoPorts)}, port: "metrics", want: "10.0.0.1:9000"},
		"by number":    {slices: []*discoveryv1.EndpointSlice{with(one("10.0.0.1:8000"), twoPorts)}, port: "8000", want: "10.0.0.1:8000"},
		"which port":   {slices: []*discoveryv1.EndpointSlice{with(one("10.0.0.1:8000"), twoPorts)}, err: "the endpoints have several ports, http (8000), metrics (9000): choose one with port"},
		"no such port": {slices: []*discoveryv1.EndpointSlice{one("10.0.0.1:8000")}, port: "grpc", err: "no endpoint has the port grpc: there are http (8000)"},
		"some without the port": {slices: []*discoveryv1.EndpointSlice{one("10.0.0.1:8000"), with(one("10.0.0.2:8001"), func(s *discoveryv1.EndpointSlice) {
			s.Ports[0].Name = new("other")
		})}, port: "http", want: "10.0.0.1:8000"},
		"not over UDP": {slices: []*discoveryv1.EndpointSlice{with(with(one("10.0.0.1:8000"), twoPorts), func(s *discoveryv1.EndpointSlice) {
			s.Ports[0].Protocol = &udp
		})}, want: "10.0.0.1:9000"},
		"both families": {slices: []*discoveryv1.EndpointSlice{one("[fd00::1]:8000"), one("10.0.0.1:8000")}, want: "10.0.0.1:8000"},
		"IPv6 alone":    {slices: []*discoveryv1.EndpointSlice{one("[fd00::1]:8000=a"), newSlice("b", "10.0.0.1", "8000")}, want: "[fd00::1]:8000=a"},
		"names are no addresses": {slices: []*discoveryv1.EndpointSlice{with(one("10.0.0.1:8000"), func(s *discoveryv1.EndpointSlice) {
			s.AddressType = discoveryv1.AddressTypeFQDN
		})}},
		"while an endpoint moves":         {slices: []*discoveryv1.EndpointSlice{one("!10.0.0.1:8000=a"), one("10.0.0.1:8000=a")}, want: "10.0.0.1:8000=a"},
		"while an address gets a new pod": {slices: []*discoveryv1.EndpointSlice{one("10.0.0.1:8000=b"), one("~10.0.0.1:8000=a")}, want: "10.0.0.1:8000=b"},
		"conditions that are not known": {slices: []*discoveryv1.EndpointSlice{with(one("10.0.0.1:8000"), func(s *discoveryv1.EndpointSlice) {
			s.Endpoints[0].Conditions = discoveryv1.EndpointConditions{}
		})}, want: "10.0.0.1:8000"},
		"published although not ready": {slices: []*discoveryv1.EndpointSlice{with(one("!10.0.0.1:8000"), func(s *discoveryv1.EndpointSlice) {
			s.Endpoints[0].Conditions.Ready = new(true)
		})}, want: "!10.0.0.1:8000"},
		"published although terminating": {slices: []*discoveryv1.EndpointSlice{with(one("~10.0.0.1:8000"), func(s *discoveryv1.EndpointSlice) {
			s.Endpoints[0].Conditions.Ready = new(true)
		})}, want: "!10.0.0.1:8000"},
		"without address": {slices: []*discoveryv1.EndpointSlice{with(one("10.0.0.1:8000"), func(s *discoveryv1.EndpointSlice) {
			s.Endpoints[0].Addresses = nil
		})}},
	} {
		t.Run(name, func(t *testing.T) {
			var all []slice
			for _, s := range c.slices {
				all = append(all, sliceOf(s))
			}
			list, err := specs(all, c.port, discovery.Form{})
			if got := show(list); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
				t.Errorf("error %v, want %q", err, c.err)
			}
			if err == nil && list == nil {
				t.Error("an empty answer is nil")
			}
		})
	}
}

func TestForm(t *testing.T) {
	form := discovery.Form{Scheme: "https", Path: "engine", Weight: 2, ConcurrencyThreshold: 32, DataParallelRanks: 2}
	got, err := specs([]slice{sliceOf(slicesOf(t, "!10.0.0.1:8000=a")[0])}, "", form)
	if err != nil {
		t.Fatal(err)
	}
	rank := func(r int) backends.Spec {
		return backends.Spec{URL: "https://10.0.0.1:8000/engine", Rank: r, Weight: 2, ConcurrencyThreshold: 32, Unready: true, Instance: "a"}
	}
	if diff := cmp.Diff([]backends.Spec{rank(0), rank(1)}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
