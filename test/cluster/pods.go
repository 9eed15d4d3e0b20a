package cluster

import (
	"context"

	"github.com/gatehouse-dev/gatehouse/internal/kwokstage"
)

// Behaviour is what the pods of an image do.
type Behaviour = kwokstage.Behaviour

// What pods can be made to do instead of becoming ready at once.
var (
	NeverReady = kwokstage.NeverReady
	CrashLoop  = kwokstage.CrashLoop
	Flap       = kwokstage.Flap
	FlapEvery  = kwokstage.FlapEvery
	ReadyAfter = kwokstage.ReadyAfter
)

// BadPods makes pods with a container whose image names the digest
// (sha256:…) behave so from now on, those that run already included.
func (c *Cluster) BadPods(ctx context.Context, digest string, b Behaviour) error {
	return kwokstage.Apply(ctx, c.Client, digest, b)
}

// Heal makes pods of the digest become ready again, as pods do by default.
func (c *Cluster) Heal(ctx context.Context, digest string) error {
	return kwokstage.Heal(ctx, c.Client, digest)
}
