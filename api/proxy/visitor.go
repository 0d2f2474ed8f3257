package proxy

import (
	"fmt"
	"net/http"
	"slices"
)

// Visitor is who a request is from.
type Visitor struct {
	// Key names the key that let it in.
	Key string
	// Pools are the pools it may use; none means all.
	Pools []string
	// Tenant is the tenant id of its requests, whatever they say; empty leaves it to them.
	Tenant string
	// Check, if set, is called when the body has been read to its end, and before
	// anything is done with it: it says whether that is the body of this visitor.
	Check func() *Error
}

// MayUse reports whether the visitor may use a pool.
func (v *Visitor) MayUse(pool string) bool {
	return len(v.Pools) == 0 || slices.Contains(v.Pools, pool)
}

// admit finds out who the request is from.
func (x *exchange) admit() *Error {
	if x.p.options.Admit == nil {
		return nil
	}
	var err *Error
	x.visitor, err = x.p.options.Admit(x.r)
	return err
}

// checkVisitor settles who the request is from, now that its body was read.
func (x *exchange) checkVisitor() *Error {
	if x.visitor.Check == nil {
		return nil
	}
	return x.visitor.Check()
}

// admitWhole does both for an endpoint that reads no body.
func (x *exchange) admitWhole() *Error {
	if x.p.options.Admit == nil {
		return nil
	}
	if err := x.admit(); err != nil {
		return err
	}
	if err := x.readBody(); err != nil {
		return err
	}
	return x.checkVisitor()
}

// checkPool says whether the visitor may use the pool that the request goes to.
func (x *exchange) checkPool() *Error {
	if x.visitor.MayUse(x.target.Pool.Name()) {
		return nil
	}
	return &Error{
		Status: http.StatusForbidden, Code: CodeForbidden,
		Message: fmt.Sprintf("the key %q is not good for pool %q (keys[].pools)", x.visitor.Key, x.target.Pool.Name()),
	}
}
