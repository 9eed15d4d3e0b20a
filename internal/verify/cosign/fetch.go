package cosign

import (
	"context"
	"errors"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/gatehouse-dev/gatehouse/internal/verify"
)

// fetch gets a layer's content. The finding says why there is none.
func fetch(ctx context.Context, artifact *verify.Artifact, layer ocispec.Descriptor, limit int64) ([]byte, *verify.Finding) {
	content, err := artifact.Blob(ctx, layer, limit)
	if err == nil {
		return content, nil
	}
	var unknown *verify.UndecidedError
	var finding verify.Finding
	switch {
	case errors.As(err, &unknown):
		finding = undecided(unknown.Reason, "its content cannot be fetched: "+unknown.Error())
	case ctx.Err() != nil:
		finding = undecided(verify.ReasonUnreachable, "the verification ended before its content was fetched")
	default:
		finding = failed(verify.ReasonMalformed, "its content is not what the manifest says")
	}
	return nil, &finding
}
