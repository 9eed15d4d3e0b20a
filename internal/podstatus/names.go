package podstatus

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

const (
	partSeparator = "-"
	// hashedPrefix begins a name that says nothing of whom it is. A packed name has three parts or four, a hashed one two.
	hashedPrefix = "hashed" + partSeparator
)

// alphabet writes any bytes in what a Kubernetes name may consist of, without the separator.
var alphabet = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// PackName is the name of a pod's report on an Executor: pod, kind, namespace (if there is one) and name, each in base32,
// joined by a hyphen. Where that would be longer than a name may be, which is 253 characters, it is a hash of the same. It
// is a DNS-1123 subdomain, always the same for the same identities, and never the same for others; UIDs have no part in it.
func PackName(pod string, executor v1alpha1.ExecutorIdentity) string {
	parts := []string{pod, string(executor.Kind), executor.Name}
	if executor.Namespace != "" {
		parts = []string{pod, string(executor.Kind), executor.Namespace, executor.Name}
	}
	packed := make([]string, len(parts))
	for i, part := range parts {
		if part == "" {
			return hashedName(parts)
		}
		packed[i] = alphabet.EncodeToString([]byte(part))
	}
	name := strings.Join(packed, partSeparator)
	if len(name) > validation.DNS1123SubdomainMaxLength {
		return hashedName(parts)
	}
	return name
}

// UnpackName reads the identities from the name of a report; namespace is empty for a cluster's kind. It is not ok for a
// name that PackName does not make, and for one that holds a hash: then only the report's spec says whose it is.
func UnpackName(packed string) (pod, kind, namespace, name string, ok bool) {
	if len(packed) > validation.DNS1123SubdomainMaxLength {
		return "", "", "", "", false
	}
	parts := strings.Split(packed, partSeparator)
	if len(parts) != 3 && len(parts) != 4 {
		return "", "", "", "", false
	}
	for i, part := range parts {
		decoded, err := alphabet.DecodeString(part)
		// Base32 has several spellings of the same bytes, of which PackName writes one.
		if err != nil || len(decoded) == 0 || alphabet.EncodeToString(decoded) != part {
			return "", "", "", "", false
		}
		parts[i] = string(decoded)
	}
	if len(parts) == 4 {
		namespace = parts[2]
	}
	return parts[0], parts[1], namespace, parts[len(parts)-1], true
}

// hashedName tells parts apart as packing does: how many there are counts, and where each ends.
func hashedName(parts []string) string {
	hash := sha256.New()
	for _, part := range parts {
		_ = binary.Write(hash, binary.BigEndian, uint64(len(part))) // a hash takes in everything
		hash.Write([]byte(part))
	}
	return hashedPrefix + alphabet.EncodeToString(hash.Sum(nil))
}
