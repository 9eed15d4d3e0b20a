package app

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/go-logr/logr"
)

func (c *Config) logLevel() (slog.Level, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return 0, fmt.Errorf("--log-level %q: write debug, info, warn or error", c.LogLevel)
	}
	return level, nil
}

// logger writes structured lines to out.
func (c *Config) logger(out io.Writer) (logr.Logger, error) {
	level, err := c.logLevel()
	if err != nil {
		return logr.Logger{}, err
	}
	options := &slog.HandlerOptions{Level: level}
	var handler slog.Handler = slog.NewJSONHandler(out, options)
	if c.LogFormat == "text" {
		handler = slog.NewTextHandler(out, options)
	}
	return logr.FromSlogHandler(handler), nil
}
