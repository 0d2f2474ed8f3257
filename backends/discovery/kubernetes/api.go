package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// api lists and watches the EndpointSlices of a namespace.
type api interface {
	List(ctx context.Context, o metav1.ListOptions) (*discoveryv1.EndpointSliceList, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// client is an api over HTTP.
type client struct {
	rest       *rest.RESTClient
	namespace  string
	parameters runtime.ParameterCodec
}

var _ api = (*client)(nil)

// namespaceFile is where a pod finds the name of its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// connect returns a client, and what closes its connections.
func connect(c Config) (*client, func(), error) {
	at, err := c.rest()
	if err != nil {
		return nil, nil, err
	}
	namespace := c.Namespace
	if namespace == "" {
		text, err := os.ReadFile(namespaceFile)
		if err != nil {
			return nil, nil, fmt.Errorf("namespace: is missing, and not known from the service account: %w", err)
		}
		namespace = strings.TrimSpace(string(text))
	}
	scheme := runtime.NewScheme()
	if err := discoveryv1.AddToScheme(scheme); err != nil {
		return nil, nil, err
	}
	version := discoveryv1.SchemeGroupVersion
	at.GroupVersion, at.APIPath = &version, "/apis"
	at.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	over, err := rest.HTTPClientFor(at)
	if err != nil {
		return nil, nil, err
	}
	r, err := rest.RESTClientForConfigAndClient(at, over)
	if err != nil {
		return nil, nil, err
	}
	return &client{r, namespace, runtime.NewParameterCodec(scheme)}, over.CloseIdleConnections, nil
}

// rest returns how the API is reached.
func (c Config) rest() (*rest.Config, error) {
	at := &rest.Config{Host: c.APIServer, BearerTokenFile: c.TokenFile, TLSClientConfig: rest.TLSClientConfig{CAFile: c.CAFile}}
	if c.APIServer == "" {
		var err error
		if at, err = rest.InClusterConfig(); errors.Is(err, rest.ErrNotInCluster) {
			return nil, errors.New("this is no pod of a cluster: name the API with api_server")
		} else if err != nil {
			return nil, err
		}
	}
	at.UserAgent = "warmroute"
	at.WarningHandler = rest.NoWarnings{}
	// One's own transport, not one that is shared and kept for ever.
	at.Proxy = http.ProxyFromEnvironment
	return at, nil
}

// listTimeout bounds a list. A watch lasts as long as the server keeps it.
const listTimeout = 30 * time.Second

// List implements api.
func (c *client) List(ctx context.Context, o metav1.ListOptions) (*discoveryv1.EndpointSliceList, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	list := new(discoveryv1.EndpointSliceList)
	err := c.get(o).Do(ctx).Into(list)
	return list, err
}

// Watch implements api.
func (c *client) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	return c.get(o).Watch(ctx)
}

func (c *client) get(o metav1.ListOptions) *rest.Request {
	return c.rest.Get().Namespace(c.namespace).Resource("endpointslices").VersionedParams(&o, c.parameters)
}

// answered reports whether an error is an answer of the API.
func answered(err error) bool {
	_, ok := errors.AsType[*apierrors.StatusError](err)
	return ok
}

// plain says what the API answered, in words for whoever set the permissions.
func plain(err error) error {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		return err
	}
	s := status.Status()
	hint := ""
	if s.Code == http.StatusForbidden || s.Code == http.StatusUnauthorized {
		hint = ": the router's account must be allowed to list and watch endpointslices of discovery.k8s.io"
	}
	return fmt.Errorf("the Kubernetes API answers %d, %s%s", s.Code, cmp.Or(s.Message, string(s.Reason)), hint)
}
