package kubernetes

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// double is as much of the API of Kubernetes as lists and watches EndpointSlices, over HTTP.
type double struct {
	server *httptest.Server
	token  string // that is wanted; "" for none
	// streams makes watches bring what there is first, as newer servers do when they are
	// asked to. Older ones refuse that.
	streams bool

	mu       sync.Mutex
	version  int
	slices   map[string]*discoveryv1.EndpointSlice
	events   []event // all of them, the oldest first
	news     chan struct{}
	status   int // that all requests are answered with; 0 for what they ask
	hung     bool
	forgot   int // events up to this version are forgotten
	requests map[string]int
}

type event struct {
	version int
	kind    string
	object  *discoveryv1.EndpointSlice
}

const (
	namespace = "inference"
	service   = "vllm"
)

// newDouble starts a server that ends with the test.
func newDouble(t *testing.T, streams bool) *double {
	t.Helper()
	d := unstarted(streams)
	d.server = httptest.NewServer(d)
	t.Cleanup(d.close)
	return d
}

func unstarted(streams bool) *double {
	return &double{streams: streams, version: 100, slices: make(map[string]*discoveryv1.EndpointSlice), news: make(chan struct{}), requests: make(map[string]int)}
}

func (d *double) close() {
	d.server.CloseClientConnections()
	d.server.Close()
}

// put makes the service have these slices and no others.
func (d *double) put(all ...*discoveryv1.EndpointSlice) {
	d.mu.Lock()
	defer d.mu.Unlock()
	names := make(map[string]bool)
	for _, s := range all {
		names[s.Name] = true
		kind := "ADDED"
		if d.slices[s.Name] != nil {
			kind = "MODIFIED"
		}
		d.note(kind, s)
		d.slices[s.Name] = s
	}
	for _, name := range slices.Sorted(maps.Keys(d.slices)) {
		if !names[name] {
			d.note("DELETED", d.slices[name])
			delete(d.slices, name)
		}
	}
	d.wake()
}

// note records an event. d.mu is held.
func (d *double) note(kind string, s *discoveryv1.EndpointSlice) {
	d.version++
	s = s.DeepCopy()
	s.ResourceVersion = strconv.Itoa(d.version)
	d.events = append(d.events, event{d.version, kind, s})
}

// wake tells watches to look again. d.mu is held.
func (d *double) wake() {
	close(d.news)
	d.news = make(chan struct{})
}

// answer makes all requests be answered with a status, those under way too; 0 makes them be
// answered as they should.
func (d *double) answer(status int) {
	d.mu.Lock()
	d.status, d.hung = status, false
	d.wake()
	d.mu.Unlock()
	if status != 0 {
		d.server.CloseClientConnections()
	}
}

// hang makes new requests wait, and ends those under way.
func (d *double) hang() {
	d.mu.Lock()
	d.hung = true
	d.mu.Unlock()
	d.server.CloseClientConnections()
}

// forget makes watches that begin before now impossible, as after a compaction.
func (d *double) forget() {
	d.mu.Lock()
	d.forgot, d.events = d.version, nil
	d.mu.Unlock()
	d.server.CloseClientConnections()
}

func (d *double) count(kind string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.requests[kind]
}

func (d *double) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	kind := "list"
	if q.Get("watch") == "true" {
		kind = "watch"
	}
	d.mu.Lock()
	status, hung := d.status, d.hung
	d.requests[kind]++
	d.mu.Unlock()
	switch {
	case hung:
		<-r.Context().Done()
	case status != 0:
		refuse(w, status, "as you wish")
	case r.URL.Path != "/apis/discovery.k8s.io/v1/namespaces/"+namespace+"/endpointslices" || r.Method != http.MethodGet:
		refuse(w, http.StatusNotFound, "no such thing: "+r.URL.Path)
	case d.token != "" && r.Header.Get("Authorization") != "Bearer "+d.token:
		refuse(w, http.StatusUnauthorized, "Unauthorized")
	case q.Get("labelSelector") != discoveryv1.LabelServiceName+"="+service:
		refuse(w, http.StatusBadRequest, "not the slices of the service: "+q.Get("labelSelector"))
	case kind == "list":
		d.list(w)
	case q.Get("sendInitialEvents") == "true" && !d.streams:
		refuse(w, http.StatusUnprocessableEntity, "sendInitialEvents is forbidden for watch")
	default:
		d.watch(w, r)
	}
}

// refuse answers with an error as the API writes it.
func refuse(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Message: message, Code: int32(status), Reason: map[int]metav1.StatusReason{
			http.StatusGone: metav1.StatusReasonExpired, http.StatusForbidden: metav1.StatusReasonForbidden,
			http.StatusUnprocessableEntity: metav1.StatusReasonInvalid,
		}[status],
	})
}

func (d *double) list(w http.ResponseWriter) {
	d.mu.Lock()
	list := discoveryv1.EndpointSliceList{TypeMeta: metav1.TypeMeta{Kind: "EndpointSliceList", APIVersion: "discovery.k8s.io/v1"}}
	list.ResourceVersion = strconv.Itoa(d.version)
	for _, s := range d.slices {
		list.Items = append(list.Items, *s)
	}
	d.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(list)
}

func (d *double) watch(w http.ResponseWriter, r *http.Request) {
	from, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	d.mu.Lock()
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		from = d.version
	} else if from < d.forgot {
		d.mu.Unlock()
		refuse(w, http.StatusGone, "too old resource version")
		return
	}
	var first []event
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		for _, s := range d.slices {
			first = append(first, event{d.version, "ADDED", s})
		}
		end := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: strconv.Itoa(d.version), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		}}
		first = append(first, event{d.version, "BOOKMARK", end})
	}
	d.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	out := http.NewResponseController(w)
	send := func(e event) {
		object := e.object.DeepCopy()
		object.TypeMeta = metav1.TypeMeta{Kind: "EndpointSlice", APIVersion: "discovery.k8s.io/v1"}
		raw, _ := json.Marshal(object)
		json.NewEncoder(w).Encode(metav1.WatchEvent{Type: e.kind, Object: runtime.RawExtension{Raw: raw}})
	}
	for _, e := range first {
		send(e)
	}
	out.Flush()
	for {
		d.mu.Lock()
		var next []event
		for _, e := range d.events {
			if e.version > from {
				next = append(next, e)
			}
		}
		news, status := d.news, d.status
		d.mu.Unlock()
		if status != 0 {
			return
		}
		for _, e := range next {
			send(e)
			from = e.version
		}
		out.Flush()
		select {
		case <-r.Context().Done():
			return
		case <-news:
		}
	}
}

// slicesOf returns slices with endpoints at addresses, host:port of one port: "!" marks
// those that are not ready, "~" those that terminate, and "=uid" their pods.
func slicesOf(t *testing.T, addresses ...string) []*discoveryv1.EndpointSlice {
	t.Helper()
	var all []*discoveryv1.EndpointSlice
	for i, text := range addresses {
		text, unready := strings.CutPrefix(text, "!")
		text, ending := strings.CutPrefix(text, "~")
		text, uid, known := strings.Cut(text, "=")
		host, number, err := net.SplitHostPort(text)
		if err != nil {
			t.Fatal(err)
		}
		e := discoveryv1.Endpoint{Addresses: []string{host}, Conditions: discoveryv1.EndpointConditions{
			Ready: new(!unready && !ending), Serving: new(!unready), Terminating: &ending,
		}}
		if known {
			e.TargetRef = podRef(uid)
		}
		// Two endpoints a slice, so that there are several.
		if i%2 == 0 {
			all = append(all, newSlice(fmt.Sprintf("%s-%d", service, i/2), host, number))
		}
		last := all[len(all)-1]
		last.Endpoints = append(last.Endpoints, e)
	}
	return all
}

func newSlice(name, host, number string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4}
	s.Name, s.Namespace = name, namespace
	s.UID = types.UID(name)
	s.Labels = map[string]string{discoveryv1.LabelServiceName: service}
	if strings.Contains(host, ":") {
		s.AddressType = discoveryv1.AddressTypeIPv6
	}
	n, _ := strconv.Atoi(number)
	s.Ports = []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(n))}}
	return s
}
