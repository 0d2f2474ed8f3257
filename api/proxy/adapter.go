package proxy

import (
	"errors"
	"fmt"

	"github.com/warmroute/warmroute/api/intake"
	"github.com/warmroute/warmroute/router"
)

// maxAdapter bounds the name of a LoRA adapter, in characters.
const maxAdapter = 256

// readAdapter reads the name of the LoRA adapter that a header asks for, in place of the
// model that the body names.
func (x *exchange) readAdapter() *Error {
	names := x.r.Header[headerAdapter]
	if len(names) == 0 {
		return nil
	}
	if len(names) > 1 || !intake.Printable(names[0], maxAdapter) {
		return invalid(fmt.Sprintf("X-Amzn-SageMaker-Adapter-Identifier must be 1 to %d printable ASCII characters, the first not a space", maxAdapter))
	}
	x.adapter = names[0]
	return nil
}

// loadsAdapter reports whether a model that nobody knows is an adapter of the pool that the
// path has chosen, which its engines may load when they are asked for it.
func (x *exchange) loadsAdapter(err error) bool {
	_, unknown := errors.AsType[*router.UnknownModelError](err)
	return unknown && x.adapter != "" && x.pool != nil
}
