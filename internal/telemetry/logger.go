package telemetry

import (
	"fmt"
	"io"
	"log/slog"
)

// NewLogger returns a logger that writes to w from a level on (debug, info, warn,
// error) in a format (text, json).
func NewLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var lowest slog.Level
	switch level {
	case "debug":
		lowest = slog.LevelDebug
	case "info":
		lowest = slog.LevelInfo
	case "warn":
		lowest = slog.LevelWarn
	case "error":
		lowest = slog.LevelError
	default:
		return nil, fmt.Errorf("log level %q is not one of debug, info, warn, error", level)
	}
	options := &slog.HandlerOptions{Level: lowest}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, fmt.Errorf("log format %q is not one of text, json", format)
}
