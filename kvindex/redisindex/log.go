package redisindex

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// quietFor is how long the client's own log is silent after each line: it writes one for
// every connection that fails.
const quietFor = 30 * time.Second

// clientLog passes on what the client library has to say, a line at a time.
type clientLog struct {
	logger *slog.Logger
	now    func() time.Time

	mu   sync.Mutex
	said time.Time
	kept int // lines that were not passed on since
}

// logClient makes the client library, which knows one logger for the whole process, write
// to this one.
func logClient(c Config) { redis.SetLogger(&clientLog{logger: c.Logger, now: c.Now}) }

// Printf implements the logger of the client library.
func (l *clientLog) Printf(ctx context.Context, format string, v ...any) {
	l.mu.Lock()
	now, kept := l.now(), l.kept
	if now.Sub(l.said) < quietFor {
		l.kept++
		l.mu.Unlock()
		return
	}
	l.said, l.kept = now, 0
	l.mu.Unlock()
	l.logger.LogAttrs(ctx, slog.LevelWarn, "redis client", slog.String("says", fmt.Sprintf(format, v...)), slog.Int("not_shown", kept))
}
