package telemetry

import (
	"io"
	"log/slog"
	"testing"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/router"
)

// BenchmarkObserve is what counting, logging and remembering one request costs after
// its last byte:
//
//	go test -run='^$' -bench=Observe -benchmem ./internal/telemetry
func BenchmarkObserve(b *testing.B) {
	t, err := New(Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Dialects: []string{"openai"}})
	if err != nil {
		b.Fatal(err)
	}
	r := router.New(router.Options{})
	if _, err := r.AddPool(router.PoolSpec{
		Name: "chat", Models: []router.ModelSpec{{Name: "m"}}, Config: router.DefaultConfig(),
		Ejection: backends.DefaultEjection(), Backends: specs("http://b2:8000"),
	}); err != nil {
		b.Fatal(err)
	}
	t.Watch(r)
	record := answered()
	b.ReportAllocs()
	for b.Loop() {
		t.Observe(record)
	}
}
