package proxy

import (
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/warmroute/warmroute/api/intake"
	"github.com/warmroute/warmroute/backends/transport"
	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/feedback/usage"
)

// copySize is the size of the buffers that answers go through.
const copySize = 32 << 10

// frameSize is how much of an answer is wrapped at a time where it is framed: its checksum
// takes under a microsecond then.
const frameSize = 8 << 10

var copyBuffers = sync.Pool{New: func() any { return new([copySize]byte) }}

// stream is an answer on its way to the client.
type stream struct {
	a      *attempt
	resp   *http.Response
	tap    *usage.Tap    // nil where nothing is to be learned
	filter *usage.Filter // nil where nothing is taken out
	out    []byte        // what the filter lets through, reused
	framed []byte        // the same in the frames of the dialect, reused
	events bool          // it is an event stream
	flow   bool          // every read is flushed
	bound  bool          // the client must go on taking it
	id     bool          // the answer's id is remembered already
}

// relay passes an engine's answer on to the client and takes in how it ended.
func (a *attempt) relay(resp *http.Response) {
	x := a.x
	s := &stream{a: a, resp: resp, events: isEvents(resp.Header)}
	framing := x.call.Framing
	s.flow = s.events || resp.ContentLength < 0 || framing != nil
	s.bound = s.flow || resp.ContentLength > takeFreely
	defer x.stall.taken()
	a.outcome.Status = resp.StatusCode
	if resp.StatusCode < http.StatusMultipleChoices && x.call.Format != usage.None {
		format := x.call.Format
		if encoding := resp.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
			format = usage.None // asked not to, but compressed all the same
		}
		s.tap = usage.NewTap(format, resp.Header.Get("Content-Type"))
		defer s.tap.Release()
		if a.injected && s.events && format != usage.None {
			s.filter = new(usage.Filter)
		}
	}
	h := x.w.Header()
	incoming(h, resp)
	a.keepSession(h)
	x.decisionHeaders(h, a)
	if s.filter != nil || framing != nil {
		delete(h, "Content-Length")
	}
	if framing != nil {
		framing.Header(h)
	}
	announced := len(resp.Trailer)
	x.w.WriteHeader(resp.StatusCode)
	var err error
	if s.flow && framing == nil { // where there are frames, the headers go with the first
		err = x.w.push()
	}
	if err == nil && s.copy() {
		trailers(h, resp, announced)
		if len(resp.Trailer) > 0 {
			_ = x.w.push() // so that net/http does not settle on a Content-Length
		}
	} else if err != nil {
		s.clientLeft()
	}
}

func isEvents(h http.Header) bool {
	contentType := h.Get("Content-Type")
	if media, _, err := mime.ParseMediaType(contentType); err == nil {
		return media == "text/event-stream"
	}
	return strings.HasPrefix(strings.ToLower(strings.TrimSpace(contentType)), "text/event-stream")
}

// decisionHeaders tells the client about the decision.
func (x *exchange) decisionHeaders(h http.Header, a *attempt) {
	if !x.p.options.DecisionHeaders {
		return
	}
	h[headerBackend] = []string{x.record.Backend}
	h[headerDecision] = []string{x.record.DecisionID}
	if x.visitor.MayKnow() {
		h[headerReason] = []string{x.record.Reason}
		h[headerPredicted] = []string{strconv.Itoa(a.d.PredictedCached)}
	}
	x.attemptHeader(h)
}

func (x *exchange) attemptHeader(h http.Header) {
	if x.p.options.DecisionHeaders {
		h[headerAttempts] = []string{strconv.Itoa(x.record.Attempts)}
	}
}

// copy passes the body on, read by read, and reports whether it came to its end.
func (s *stream) copy() bool {
	buf := copyBuffers.Get().(*[copySize]byte) //nolint:forcetypeassert // nothing else is in the pool
	defer copyBuffers.Put(buf)
	room := buf[:]
	if s.a.x.call.Framing != nil {
		room = buf[:frameSize]
	}
	for {
		n, err := s.read(room)
		if n > 0 {
			s.watch(room[:n])
			if !s.forward(room[:n]) {
				s.clientLeft()
				return false
			}
		}
		if err == io.EOF { //nolint:errorlint // a wrapped EOF is a failure
			break
		}
		if err != nil {
			s.broken(transport.FailureOf(err))
			return false
		}
	}
	if s.filter != nil {
		if rest := s.filter.Flush(s.out[:0]); len(rest) > 0 && !s.write(rest) {
			s.clientLeft()
			return false
		}
	}
	return s.whole()
}

// read reads the next piece of the answer. Only meanwhile does the engine owe an event
// stream something: that nothing comes while the client takes nothing is not its fault.
func (s *stream) read(p []byte) (int, error) {
	if !s.events {
		return s.resp.Body.Read(p)
	}
	b, now := s.a.d.Backend, s.a.x.p.options.Now
	b.WaitBegins(now())
	defer b.WaitEnds()
	n, err := s.resp.Body.Read(p)
	if n > 0 {
		b.Heard(now())
	}
	return n, err
}

// watch learns from what the engine sent.
func (s *stream) watch(p []byte) {
	a, x := s.a, s.a.x
	if s.tap == nil {
		a.outcome.FirstByte = s.resp.StatusCode < http.StatusMultipleChoices
		return
	}
	before := s.tap.Started()
	s.tap.Write(p)
	a.outcome.FirstByte = s.tap.Started() // a comment is no first token
	if !before && s.tap.Started() {
		now := x.p.options.Now()
		x.record.TTFT = now.Sub(x.record.Start)
		x.p.options.Router.FirstToken(a.d, now)
	}
	if x.call.Stores && !s.id && s.events {
		s.remember()
	}
}

// forward sends the client what the engine sent, less what is taken out.
func (s *stream) forward(p []byte) bool {
	if s.filter == nil {
		return s.write(p)
	}
	s.out = s.filter.Push(s.out[:0], p)
	return len(s.out) == 0 || s.write(s.out)
}

func (s *stream) write(p []byte) bool {
	w := &s.a.x.w
	if s.bound {
		s.a.x.stall.take()
		defer s.a.x.stall.took()
	}
	if framing := s.a.x.call.Framing; framing != nil {
		s.framed = framing.Append(s.framed[:0], p)
		p = s.framed
	}
	if _, err := w.Write(p); err != nil {
		return false
	}
	return !s.flow || w.push() == nil
}

// clientLeft ends an answer whose client takes no more of it, or may not.
func (s *stream) clientLeft() {
	if s.a.x.cut() {
		s.cut()
		return
	}
	s.learnUsage()
	s.a.outcome.Result, s.a.outcome.Blame = feedback.ClientClosed, feedback.Neutral
	s.a.x.record.Err = "the client left before the answer's end"
	s.a.x.leave()
}

// cut ends an answer that the server does not wait for any longer.
func (s *stream) cut() {
	s.learnUsage()
	s.a.outcome.Result, s.a.outcome.Blame = feedback.RouterError, feedback.Neutral
	s.a.x.record.Err = ErrStopping.Error()
	s.breakOff(http.StatusServiceUnavailable, CodeStopping, ErrStopping.Error())
}

// learnUsage takes in what the engine reported so far.
func (s *stream) learnUsage() {
	if s.tap != nil {
		s.tap.Close()
		s.a.outcome.Usage = s.tap.Usage()
		s.a.x.record.Events = s.tap.Events()
	}
}

// broken ends an answer that the engine did not finish.
func (s *stream) broken(f *transport.Failure) {
	x := s.a.x
	if f.Kind == transport.ClientGone {
		s.clientLeft()
		return
	}
	s.learnUsage()
	s.a.outcome.Result, s.a.outcome.Blame = feedback.UpstreamAborted, feedback.Strike
	x.record.Err = f.Error()
	code, why := CodeBroken, "the connection broke off"
	if f.Kind == transport.IdleTimeout {
		code, why = CodeStalled, explain(f.Kind)
	}
	s.breakOff(http.StatusBadGateway, code, fmt.Sprintf("backend %s did not finish its answer: %s", s.a.d.Backend.ID, why))
}

// breakOff ends an answer in the middle. The client is told in its dialect where it
// can be told, and sees the connection end abnormally. Where answers are framed, the
// frame that tells is enough: an end of the connection behind it makes some clients
// throw away what they have not looked at yet, that frame included.
func (s *stream) breakOff(status int, code Code, message string) {
	x := s.a.x
	framed := x.call.Framing != nil
	x.aborted = !framed
	if framed || s.events && x.w.betweenEvents() {
		e := &Error{Status: status, Code: code, Message: message, Attempts: x.record.Attempts}
		if s.tap != nil {
			e.ResponseID = s.tap.ResponseID()
		}
		if _, err := x.w.Write(x.call.Dialect.StreamError(e)); err != nil {
			x.aborted = true
		}
	}
	_ = x.w.push() // what is buffered reaches the client before the end
}

// whole takes in an answer that came to its end. It reports false for a stream that ended in
// good order but says that there is more of it: its client is told, for whom it would look
// finished.
func (s *stream) whole() bool {
	a, x, status := s.a, s.a.x, s.resp.StatusCode
	s.learnUsage()
	a.outcome.Result, a.outcome.Blame = intake.Judge(status)
	if a.outcome.Blame == feedback.Overloaded {
		a.outcome.RetryAfter = retryAfter(s.resp.Header, x.p.options.Now())
	}
	switch {
	case status >= http.StatusBadRequest:
		x.record.Err = fmt.Sprintf("backend %s answered %d", a.d.Backend.ID, status)
	case s.tap == nil:
	case s.tap.Err():
		a.outcome.Result, a.outcome.Blame = feedback.EngineError, intake.BlameFor(s.tap.ErrStatus())
		x.record.Err = fmt.Sprintf("backend %s answered %d with an error in it", a.d.Backend.ID, status)
	case s.events && s.tap.Started() && !s.tap.Done():
		a.outcome.Result, a.outcome.Blame = feedback.UpstreamAborted, feedback.Neutral
		x.record.Err = fmt.Sprintf("backend %s ended its stream without the event that ends one", a.d.Backend.ID)
		if s.tap.Unfinished() {
			s.breakOff(http.StatusBadGateway, CodeBroken, fmt.Sprintf("backend %s did not finish its answer: the stream ended early", a.d.Backend.ID))
			return false
		}
	default:
		if x.call.Stores && !s.id {
			s.remember()
		}
	}
	return true
}
