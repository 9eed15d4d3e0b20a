package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"go.etcd.io/etcd/server/v3/embed"
)

// startEtcd starts a single-member etcd on a socket that only this user can
// reach, and returns when it serves.
func startEtcd(ctx context.Context, dataDir, socket string) (*embed.Etcd, error) {
	cfg := embed.NewConfig()
	cfg.Dir = dataDir
	cfg.LogLevel = "fatal"
	// A member must name a peer address; nobody ever connects to this one.
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	client := url.URL{Scheme: "unix", Path: socket}
	cfg.ListenPeerUrls = []url.URL{peer}
	cfg.AdvertisePeerUrls = []url.URL{peer}
	cfg.ListenClientUrls = []url.URL{client}
	cfg.AdvertiseClientUrls = []url.URL{client}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	// A single member elects itself: there is nothing to wait for.
	cfg.TickMs, cfg.ElectionMs = 10, 100
	cfg.QuotaBackendBytes = 8 << 30
	// What a cluster holds is thrown away when it stops, so that syncing to
	// disk would only cost time.
	cfg.UnsafeNoFsync = true
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	select {
	case <-e.Server.ReadyNotify():
		return e, nil
	case err := <-e.Err():
		e.Close()
		return nil, fmt.Errorf("etcd: %w", err)
	case <-ctx.Done():
		e.Close()
		return nil, errors.New("etcd: stopped before it was ready")
	}
}
