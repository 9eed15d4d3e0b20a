package cosign

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"strings"
	"testing"

	signing "github.com/gatehouse-dev/gatehouse/test/signatures/cosign"
)

func encoded(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func publicPEM(public any) []byte {
	return encoded("PUBLIC KEY", must(x509.MarshalPKIXPublicKey(public)))
}

// What cannot be trusted is refused, by the name of its field and with what to
// do about it.
func TestNewRefuses(t *testing.T) {
	w := theWorld()
	good := w.key.PublicPEM()
	identity := Identity{Issuer: issuer, Subject: workflow}
	key := func(content []byte) Config { return Config{Keys: []Key{{Name: "k1", PEM: content}}} }
	keyless := func(identity Identity) Config {
		return Config{Identities: []Identity{identity}, TransparencyLog: Required, TrustRoot: w.root}
	}
	rooted := func(content string) Config {
		return Config{Identities: []Identity{identity}, TransparencyLog: Required, TrustRoot: []byte(content)}
	}
	without := func(log, stamps bool) []byte { return must(w.sigstore.TrustRootWith(log, stamps)) }
	lacking := func(list string) []byte {
		var content map[string]any
		if err := json.Unmarshal(w.root, &content); err != nil {
			t.Fatal(err)
		}
		delete(content, list)
		return must(json.Marshal(content))
	}
	small := must(rsa.GenerateKey(rand.Reader, 1024))
	curve := must(ecdsa.GenerateKey(elliptic.P224(), rand.Reader))

	tests := []struct {
		name   string
		config Config
		want   string
	}{
		{"nobody", Config{}, "keys: there are neither keys nor identities"},
		{"a requirement that is none", Config{Keys: keysOf(w.key), TransparencyLog: "required"}, `transparencyLog: is "required"; write Required or Ignored`},
		{"another requirement that is none", Config{Keys: keysOf(w.key), Timestamps: "Maybe"}, `timestamps: is "Maybe"; write Required or Ignored`},
		{"too many keys", Config{Keys: make([]Key, MaxKeys+1)}, "keys: there are 17, of at most 16"},
		{"too many identities", Config{Identities: make([]Identity, MaxIdentities+1), TransparencyLog: Required}, "identities: there are 17, of at most 16"},
		{"two keys of one name", Config{Keys: []Key{{Name: "k1", PEM: good}, {Name: "k1", PEM: good}}}, "key k1: two keys have this name"},

		{"an empty key", key(nil), "key k1: is empty; give a public key in PEM"},
		{"blanks for a key", key([]byte(" \n")), "key k1: is empty"},
		{"a key that is not PEM", key([]byte("ssh-ed25519 AAAA")), "key k1: is not PEM; give a public key that begins with -----BEGIN PUBLIC KEY-----"},
		{"a private key", key(encoded("PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(w.key.Private)))), "key k1: is a private key, which must not be here; replace it by its public key, and consider it disclosed"},
		{"an encrypted private key of cosign", key(encoded("ENCRYPTED SIGSTORE PRIVATE KEY", []byte{1})), "key k1: is a private key"},
		{"a certificate", key(encoded("CERTIFICATE", []byte{1})), "key k1: is a certificate; give its public key (openssl x509 -pubkey -noout)"},
		{"PEM of something else", key(encoded("DH PARAMETERS", []byte{1})), "key k1: is PEM of another type"},
		{"PEM of nothing", key(encoded("PUBLIC KEY", []byte{1})), "key k1: does not read as a public key"},
		{"two keys in one", key(append(good, w.other.PublicPEM()...)), "key k1: holds more than one PEM block"},
		{"an endless key", key(make([]byte, MaxKeyBytes+1)), "key k1: is larger than 65536 bytes"},
		{"a weak RSA key", key(publicPEM(&small.PublicKey)), "key k1: is an RSA key of 1024 bits; use one of 2048 to 8192"},
		{"a curve that is too small", key(publicPEM(&curve.PublicKey)), "key k1: is on another curve than P-256, P-384 and P-521"},

		{"the log without a trust root", Config{Keys: keysOf(w.key), TransparencyLog: Required}, "trustRoot: is empty, and transparencyLog: Required needs the log's keys"},
		{"time stamps without a trust root", Config{Keys: keysOf(w.key), Timestamps: Required}, "trustRoot: is empty, and timestamps: Required needs the authority's certificates"},
		{"the log without a log", Config{Keys: keysOf(w.key), TransparencyLog: Required, TrustRoot: without(false, true)}, "trustRoot: has no tlogs"},
		{"time stamps without an authority", Config{Keys: keysOf(w.key), Timestamps: Required, TrustRoot: without(true, false)}, "trustRoot: has no timestampAuthorities"},
		{"identities without a trust root", Config{Identities: []Identity{identity}, TransparencyLog: Required}, "trustRoot: is empty, and identities are vouched for by a certificate authority"},
		{"identities without proof of a time", Config{Identities: []Identity{identity}, TrustRoot: w.root}, "identities: need proof of when was signed"},
		{"identities without their authority", rooted(string(lacking("certificateAuthorities"))), "trustRoot: has no certificateAuthorities, which identities need"},
		{"identities without a certificate log", rooted(string(lacking("ctlogs"))), "trustRoot: has no ctlogs"},
		{"a trust root that is no JSON", rooted("PK"), "trustRoot: it is not JSON"},
		{"a trust root that reads in two ways", rooted(`{"mediaType":"a","mediaType":"b"}`), `trustRoot: it has the key "mediaType" twice in one object`},
		{"a trust root of another type", rooted(`{"mediaType":"text/plain"}`), "trustRoot: does not read as a trusted_root.json"},
		{"a trust root with unknown fields", rooted(`{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1","more":1}`), "trustRoot: does not read as a trusted_root.json"},
		{"an empty trust root", rooted(`{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1"}`), "trustRoot: trusts nobody"},
		{"an endless trust root", rooted(strings.Repeat(" ", MaxTrustRootBytes+1)), "trustRoot: is larger than"},

		{"an identity without an issuer", keyless(Identity{Subject: "a"}), "identity 1: give exactly one of issuer and issuerRegExp"},
		{"an identity with two issuers", keyless(Identity{Issuer: "a", IssuerRegExp: "a", Subject: "a"}), "identity 1: give exactly one of issuer and issuerRegExp"},
		{"an identity without a subject", keyless(Identity{Issuer: "a"}), "identity 1: give exactly one of subject and subjectRegExp"},
		{"an identity with two subjects", keyless(Identity{Issuer: "a", Subject: "a", SubjectRegExp: "a"}), "identity 1: give exactly one of subject and subjectRegExp"},
		{"an endless subject", keyless(Identity{Issuer: "a", Subject: strings.Repeat("a", maxPattern+1)}), "identity 1: subject: is longer than 1024 bytes"},
		{"a pattern that does not compile", keyless(Identity{Issuer: "a", SubjectRegExp: "("}), "identity 1: subjectRegExp: does not compile"},
		{"an issuer's pattern that does not compile", keyless(Identity{IssuerRegExp: "a**", Subject: "a"}), "identity 1: issuerRegExp: does not compile"},
		{"a pattern that breaks out of its group", keyless(Identity{Issuer: "a", SubjectRegExp: "nobody)|(.*"}), "identity 1: subjectRegExp: does not compile"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			config := test.config
			for _, requirement := range []*Requirement{&config.TransparencyLog, &config.Timestamps} {
				if *requirement == "" {
					*requirement = Ignored
				}
			}
			verifier, err := New(config)
			var fault *ConfigError
			if !errors.As(err, &fault) || verifier != nil {
				t.Fatalf("%v, %v; want a *ConfigError and no Verifier", verifier, err)
			}
			if !strings.HasPrefix(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q, want %q", err, test.want)
			}
		})
	}
}

// A trust root that nothing asks for does no harm, and neither does PEM with
// words around it.
func TestNewAccepts(t *testing.T) {
	w := theWorld()
	content := append([]byte("cosign.pub of the release team\n"), w.key.PublicPEM()...)
	if _, err := New(Config{Keys: []Key{{"k1", content}}, TrustRoot: w.root, TransparencyLog: Ignored, Timestamps: Ignored}); err != nil {
		t.Error(err)
	}
	der := x509.MarshalPKCS1PublicKey(w.keys[signing.RSA2048].Private.Public().(*rsa.PublicKey))
	if _, err := New(Config{Keys: []Key{{"k1", encoded("RSA PUBLIC KEY", der)}}, TransparencyLog: Ignored, Timestamps: Ignored}); err != nil {
		t.Error(err)
	}
}
