package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// hashLength is how many hexadecimal characters of a hash are kept: 128 bits.
const hashLength = 32

// hash is that of the JSON of parts. JSON writes maps in the order of their keys and leaves out fields that are not
// set, so a type that gains an optional field hashes old content as before.
func hash(parts any) (string, error) {
	raw, err := json.Marshal(parts)
	if err != nil {
		return "", fmt.Errorf("hash inputs: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])[:hashLength], nil
}
