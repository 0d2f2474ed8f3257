package kubernetes

import (
	"fmt"
	"sync"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// view is what is known of the slices of a service. A reflector writes it.
type view struct {
	changed chan struct{} // has something when read has news

	mu    sync.Mutex
	all   map[string]slice // by the names of the slices
	known bool             // whether they were ever listed
	err   error            // of the last request; nil after one that did not fail
}

var _ cache.ReflectorStore = (*view)(nil)

func newView() *view {
	return &view{changed: make(chan struct{}, 1), all: make(map[string]slice)}
}

// read returns the slices; known is false while they were never listed, and err says what
// is wrong with the connection.
func (v *view) read() (all []slice, known bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, s := range v.all {
		all = append(all, s)
	}
	return all, v.known, v.err
}

// change changes the view and says so.
func (v *view) change(how func()) {
	v.mu.Lock()
	how()
	v.mu.Unlock()
	select {
	case v.changed <- struct{}{}:
	default:
	}
}

// failed notes that a request failed.
func (v *view) failed(err error) { v.change(func() { v.err = err }) }

// watching notes that a watch has begun. One that is to bring the slices first says nothing
// yet.
func (v *view) watching(o metav1.ListOptions) {
	if o.SendInitialEvents == nil {
		v.change(func() { v.err = nil })
	}
}

// Add implements [cache.ReflectorStore].
func (v *view) Add(object any) error {
	s, err := asSlice(object)
	if err == nil {
		v.change(func() { v.all[s.Name] = sliceOf(s) })
	}
	return err
}

// Update implements [cache.ReflectorStore].
func (v *view) Update(object any) error { return v.Add(object) }

// Delete implements [cache.ReflectorStore].
func (v *view) Delete(object any) error {
	s, err := asSlice(object)
	if err == nil {
		v.change(func() { delete(v.all, s.Name) })
	}
	return err
}

// Replace implements [cache.ReflectorStore].
func (v *view) Replace(list []any, _ string) error {
	all := make(map[string]slice, len(list))
	for _, object := range list {
		s, err := asSlice(object)
		if err != nil {
			return err
		}
		all[s.Name] = sliceOf(s)
	}
	v.change(func() { v.all, v.known, v.err = all, true, nil })
	return nil
}

// Resync implements [cache.ReflectorStore].
func (v *view) Resync() error { return nil }

func asSlice(object any) (*discoveryv1.EndpointSlice, error) {
	s, ok := object.(*discoveryv1.EndpointSlice)
	if !ok {
		return nil, fmt.Errorf("the Kubernetes API sent a %T, want an EndpointSlice", object)
	}
	return s, nil
}
