package proxy

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/warmroute/warmroute/api/intake"
)

// Visitor is who a request is from.
type Visitor struct {
	// Key names the key that let it in.
	Key string
	// Pools are the pools it may use; none means all.
	Pools []string
	// Tenant is the tenant id of its requests, whatever they say; empty leaves it to them.
	Tenant string
	// Tokens is how many tokens they may use; nil is as many as they like.
	Tokens Tokens
	// Unverified says that nothing is known of the visitor before Check: of such bodies only
	// so much is kept.
	Unverified bool
	// Check, if set, is called when the body has been read to its end, and before
	// anything is done with it: it says whether that is the body of this visitor.
	Check func() *Error
}

// Tokens bounds the tokens of a visitor's requests. Its methods may be called at the same time.
type Tokens interface {
	// Take takes out what a prompt is thought to have, or says why not.
	Take(tokens int) *Error
	// Settle corrects what was taken to what was used, once that is known.
	Settle(taken, used int)
}

// Owner names whose something is that a request leaves behind, such as an answer that is
// stored: the tenant's of its key, or the key's. Empty where there are no keys.
func (v *Visitor) Owner() string {
	switch {
	case v.Tenant != "":
		return "tenant " + v.Tenant
	case v.Key != "":
		return "key " + v.Key
	}
	return ""
}

// MayKnow reports whether the visitor may be told how much of a prompt is cached, which tells
// what others asked unless the prompts are its tenant's alone.
func (v *Visitor) MayKnow() bool { return v.Key == "" || v.Tenant != "" }

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
	err := x.visitor.Check()
	x.payload.unverified.Release()
	return err
}

// charge takes what the prompt is thought to have out of what the visitor may use.
func (x *exchange) charge() *Error {
	if x.visitor.Tokens == nil {
		return nil
	}
	tokens := 0
	if x.target.Pool != nil {
		tokens = intake.PromptTokens(&x.request)
	}
	if err := x.visitor.Tokens.Take(tokens); err != nil {
		return err
	}
	x.charged, x.taken = true, tokens
	return nil
}

// settle corrects that, now that the request is over.
func (x *exchange) settle() {
	if x.charged {
		x.charged = false
		x.visitor.Tokens.Settle(x.taken, intake.UsedTokens(x.record, x.taken))
	}
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
