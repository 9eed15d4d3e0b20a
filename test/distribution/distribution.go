// Package distribution is the registry of the distribution project, in process
// and in memory: what most of those that people run are made of. It has no
// referrers API, so that clients fall back to the referrers tag.
//
//	hub := registry.Start(t, registry.WithContent(distribution.New(t)))
package distribution

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory" // its storage
	"github.com/sirupsen/logrus"
)

// New makes an empty registry.
func New(tb testing.TB) http.Handler {
	tb.Helper()
	config := &configuration.Configuration{
		Storage: configuration.Storage{
			"inmemory":    configuration.Parameters{},
			"delete":      configuration.Parameters{"enabled": true},
			"maintenance": configuration.Parameters{"uploadpurging": map[any]any{"enabled": false}},
		},
	}
	config.HTTP.Secret = "of a test"
	config.Catalog.MaxEntries = 100
	logrus.SetOutput(io.Discard)
	ctx, cancel := context.WithCancel(context.Background())
	tb.Cleanup(cancel)
	return handlers.NewApp(ctx, config)
}
