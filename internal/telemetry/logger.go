package telemetry

import (
	"fmt"
	"io"
	"log/slog"
)

// levels are the lowest levels that a log can have.
var levels = map[string]slog.Level{
	"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
}

// ParseLevel returns the level that a name stands for.
func ParseLevel(name string) (slog.Level, error) {
	level, ok := levels[name]
	if !ok {
		return 0, fmt.Errorf("log level %q is not one of debug, info, warn, error", name)
	}
	return level, nil
}

// NewLogger returns a logger that writes to w from a level on in a format (text, json).
func NewLogger(w io.Writer, level slog.Leveler, format string) (*slog.Logger, error) {
	options := &slog.HandlerOptions{Level: level}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, fmt.Errorf("log format %q is not one of text, json", format)
}
