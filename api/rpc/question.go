package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/warmroute/warmroute/api/intake"
	"github.com/warmroute/warmroute/api/prompt"
	"github.com/warmroute/warmroute/api/proxy"
	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/backends/transport"
	"github.com/warmroute/warmroute/feedback"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
	"github.com/warmroute/warmroute/router"
)

// maxTried is how many backends a request may name that failed it.
const maxTried = 64

// errPin says that requests must not name their backend here.
var errPin = errors.New("backend: naming one is not allowed here (allow_backend_pin)")

// asking is what Route and Explain requests have in common.
type asking interface {
	GetPrompt() *v1.Prompt
	GetTenantId() string
	GetTriedBackends() []string
	GetBackend() string
}

// question is a request on its way to a decision. It holds its share of the budget, and
// the memory of its prompt, until release.
type question struct {
	s      *Service
	from   *proxy.Visitor
	share  intake.Share
	prompt *prompt.Request // nil for a body that is not read
	target router.Target
	ask    router.Request
	record *feedback.Record

	askUsage bool          // its answer reports usage only if the engine is asked to
	stores   bool          // its engine stores the answer
	previous router.PinKey // of the stored answer that it follows, 0 for none
}

// release gives up what the question holds. The block keys go with it.
func (q *question) release() {
	q.share.Release()
	if q.prompt != nil {
		q.prompt.Release()
	}
}

// prepare does everything that comes before the decision.
func (q *question) prepare(in asking) error {
	if tenant := in.GetTenantId(); tenant != "" && !intake.Printable(tenant, intake.MaxTenant) {
		return invalid("tenant_id", "must be 1 to %d printable ASCII characters, the first not a space", intake.MaxTenant)
	}
	if n := len(in.GetTriedBackends()); n > maxTried {
		return invalid("tried_backends", "%d are named, at most %d may be", n, maxTried)
	}
	if in.GetBackend() != "" {
		if !q.s.options.AllowPin {
			return errPin
		}
		q.ask.Pin, q.ask.PinRequired = in.GetBackend(), true
	}
	if err := checked(q.from); err != nil {
		return err
	}
	c, err := q.s.contentOf(in.GetPrompt())
	if err != nil {
		return err
	}
	q.record.Route, q.record.RequestBytes = c.call.Route, int64(len(c.body))
	if int64(len(c.body)) > q.s.options.BodyBytes {
		return &limitError{message: fmt.Sprintf("%s: is larger than %d bytes (limits.body_bytes)", c.field, q.s.options.BodyBytes)}
	}
	if !q.share.Hold(int64(len(c.body))) {
		return busy(q.s.options.Bodies)
	}
	model, err := q.read(c)
	if err != nil {
		return err
	}
	q.target, err = intake.Resolve(q.s.options.Router, model, c.call.ModelOptional)
	if errors.Is(err, intake.ErrNoModel) {
		return invalid(c.field, "%v", err)
	}
	if err != nil {
		return err
	}
	if pool := q.target.Pool.Name(); !q.from.MayUse(pool) {
		return forbidden("the key %q is not good for pool %q (keys[].pools)", q.from.Key, pool)
	}
	if err := q.resolved(in, c.call); err != nil {
		return err
	}
	if q.prompt == nil && q.target.Alias {
		return invalid(c.field, "a form cannot use an alias: name the model %q", q.target.Model)
	}
	return nil
}

// read reads the body and returns the model it asks for.
func (q *question) read(c content) (string, error) {
	q.ask.N = 1
	if c.call.Kind == prompt.Opaque {
		model, streamed, err := prompt.MultipartModel(c.contentType, c.body)
		q.ask.Streamed, q.record.Streamed = streamed, streamed
		if err != nil {
			return "", invalid(c.field, "%v", err)
		}
		return model, nil
	}
	parsed, err := prompt.ParseWithin(c.call.Kind, c.body, &q.share)
	switch {
	case errors.Is(err, prompt.ErrNoRoom):
		return "", busy(q.s.options.Bodies)
	case err != nil:
		return "", invalid(c.field, "%v", err)
	}
	q.prompt = parsed
	q.ask.N, q.ask.Streamed, q.record.Streamed = parsed.N(), parsed.Streaming(), parsed.Streaming()
	return parsed.Model(), nil
}

// resolved puts the question, now that its pool is known.
func (q *question) resolved(in asking, call *proxy.Call) (err error) {
	pool := q.target.Pool
	q.ask.Pool, q.ask.Model = pool, q.target.Model
	q.record.Pool, q.record.Model = pool.Name(), q.target.Model
	for _, id := range in.GetTriedBackends() {
		for _, b := range pool.Backends() { // one that has left takes no part anyhow
			if b.ID == id {
				q.ask.Tried = append(q.ask.Tried, b)
			}
		}
	}
	if q.prompt != nil {
		intake.Ask(q.prompt, intake.Source{
			Target: q.target, Route: call.Route, TenantID: cmp.Or(q.from.Tenant, in.GetTenantId()), KeySeed: q.s.options.KeySeed, AnyRank: call.Stores,
		}, &q.ask, q.record)
		q.askUsage = q.s.options.InjectUsage && call.InjectUsage && in.GetPrompt().GetOriginal() != nil && intake.AsksUsage(q.prompt, q.ask.Streamed)
		if q.stores = call.Stores; q.stores {
			q.previous, err = intake.FollowPrevious(&q.ask, q.prompt.PreviousResponseID(), q.from.Owner(), q.s.options.KeySeed, q.record.Start)
		}
	}
	q.share.Release()
	q.ask.Now, q.ask.Random = time.Now(), q.s.options.Random()
	return err
}

// decide asks the router, and waits for a slot where the pool wants that.
func (q *question) decide(ctx context.Context) (*router.Decision, error) {
	o := &q.s.options
	route := func() (*router.Decision, error) {
		q.ask.Now, q.ask.Random = time.Now(), o.Random()
		return o.Router.Route(&q.ask)
	}
	d, err := route()
	if saturated, ok := errors.AsType[*router.SaturatedError](err); ok && saturated.Wait {
		q.ask.Waited = true
		d, err = intake.Wait(ctx, q.target.Pool, q.s.line, q.from.Owner(), q.record.Start.Add(o.QueueWait), route)
		q.ask.Waited = false
	}
	if message, refused := q.s.line.Refused(err, q.target.Pool.Name()); refused {
		err = &limitError{message, time.Second}
	} else if errors.Is(err, intake.ErrLineLeft) {
		err = context.Cause(ctx)
	}
	return d, err
}

// address makes t describe a backend to its caller.
func address(t *v1.Target, b *backends.Backend) *v1.Target {
	t.Backend, t.Url = b.ID, b.Address()
	if b.Rank != backends.NoRank {
		t.Headers = map[string]string{transport.RankHeader: strconv.Itoa(b.Rank)}
	}
	return t
}

// count is a number that is never negative, as messages have it.
func count(n int) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) } //nolint:gosec // bounded on both sides
