package telemetry

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmroute/warmroute/feedback"
	"github.com/warmroute/warmroute/internal/workload"
)

const (
	// requestLogQueue is how many lines may wait to be written, requestLogBytes how many
	// bytes of memory they may take; what comes then is dropped, so that no request ever
	// waits for a disk.
	requestLogQueue = 4096
	requestLogBytes = 16 << 20
	// requestLogBatch is how many bytes are written at one time at most, give or take a
	// line.
	requestLogBatch = 256 << 10
	// requestLogDrain is how long at the end what waits may take to be written.
	requestLogDrain = 2 * time.Second
)

// RequestLogConfig says where the request log goes.
type RequestLogConfig struct {
	// Path is the file, which is made where it is missing and else continued. Empty: there
	// is no request log.
	Path string
	// MaxBytes is how large the file may become. It is then renamed to Path.1, in the place
	// of an earlier one, and a new one begun.
	MaxBytes int64
}

// requestLog writes one line for each request whose prompt was hashed, in the order in which
// they end.
type requestLog struct {
	sink    sink
	logger  *slog.Logger
	dropped prometheus.Counter
	queue   chan *workload.LoggedRequest
	queued  atomic.Int64 // bytes of memory of what is in the queue
	pending atomic.Int64 // lines that are taken, and neither written nor lost

	batch   []byte
	lines   int // in the batch
	failing bool
}

// sink takes whole lines and says how many of them are lost.
type sink interface {
	write(lines []byte) (lost int, err error)
	close() error
}

func newRequestLog(s sink, logger *slog.Logger, dropped prometheus.Counter) *requestLog {
	return &requestLog{sink: s, logger: logger, dropped: dropped, queue: make(chan *workload.LoggedRequest, requestLogQueue)}
}

// observe queues a record. It never waits.
func (l *requestLog) observe(r *feedback.Record) {
	if r.Pool == "" || r.BlockBytes == 0 {
		return
	}
	size := queuedBytes(len(r.Keys))
	if l.queued.Add(size) > requestLogBytes { // before the keys are copied
		l.queued.Add(-size)
		l.dropped.Inc()
		return
	}
	l.pending.Add(1)
	select {
	case l.queue <- logged(r):
	default:
		l.queued.Add(-size)
		l.pending.Add(-1)
		l.dropped.Inc()
	}
}

// queuedBytes is about what a request with so many keys takes while it waits. Its names are
// the configuration's own.
func queuedBytes(keys int) int64 {
	const bare, key = 512, 8
	return bare + key*int64(keys)
}

// logged copies what the log holds of a record.
func logged(r *feedback.Record) *workload.LoggedRequest {
	return &workload.LoggedRequest{
		Arrived:         r.Start.UTC(),
		Pool:            r.Pool,
		Strategy:        r.Strategy,
		Reason:          r.Reason,
		Backend:         r.Backend,
		Result:          r.Result.String(),
		Status:          r.Status,
		TTFTSeconds:     r.TTFT.Seconds(),
		DurationSeconds: r.Duration.Seconds(),
		PromptTokens:    reported(r.Usage.Prompt, r.Usage.HasPrompt),
		CachedTokens:    reported(r.Usage.Cached, r.Usage.HasCached),
		OutputTokens:    reported(r.Usage.Completion, r.Usage.HasCompletion),
		StreamBytes:     r.StreamBytes,
		BlockBytes:      r.BlockBytes,
		Keys:            slices.Clone(workload.BlockKeys(r.Keys)),
	}
}

// reported is a count, nil where there is none.
func reported(count int, has bool) *int {
	if !has {
		return nil
	}
	return &count
}

// run writes what is queued until ctx ends, and then what is left for as long as
// [requestLogDrain]. A write that hangs is left behind, and its lines count as dropped.
func (l *requestLog) run(ctx context.Context) {
	drain, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	written := make(chan struct{})
	go func() {
		defer close(written)
		l.write(ctx, drain)
	}()
	<-ctx.Done()
	patience := time.NewTimer(requestLogDrain)
	defer patience.Stop()
	select {
	case <-written:
	case <-patience.C:
		lost := l.pending.Load()
		l.dropped.Add(float64(lost))
		l.logger.Warn("request log: not all was written before the end", slog.Int64("lines_lost", lost))
	}
}

// write writes what is queued until ctx ends, then what is left until drain does, and closes
// the sink.
func (l *requestLog) write(ctx, drain context.Context) {
	for ctx.Err() == nil {
		select {
		case r := <-l.queue:
			l.add(r)
		case <-ctx.Done():
		}
	}
	for drain.Err() == nil && len(l.queue) > 0 {
		l.add(<-l.queue)
	}
	if err := l.sink.close(); err != nil {
		l.logger.Warn("request log: the file cannot be closed", slog.String("error", err.Error()))
	}
}

// add puts a line into the batch, and writes that when it is large or nothing else waits.
func (l *requestLog) add(r *workload.LoggedRequest) {
	l.queued.Add(-queuedBytes(len(r.Keys)))
	var err error
	if l.batch, err = r.AppendLine(l.batch); err != nil {
		l.pending.Add(-1)
		l.dropped.Inc()
		l.logger.Warn("request log: a request cannot be written", slog.String("error", err.Error()))
	} else {
		l.lines++
	}
	if len(l.batch) >= requestLogBatch || len(l.queue) == 0 && len(l.batch) > 0 {
		l.flush()
	}
}

// flush writes the batch.
func (l *requestLog) flush() {
	lost, err := l.sink.write(l.batch)
	l.pending.Add(int64(-l.lines))
	l.batch, l.lines = l.batch[:0], 0
	l.dropped.Add(float64(lost))
	switch {
	case err != nil && !l.failing:
		l.logger.Warn("request log: lines are lost", slog.String("error", err.Error()))
	case err == nil && l.failing:
		l.logger.Info("request log: lines are written again")
	}
	l.failing = err != nil
}
