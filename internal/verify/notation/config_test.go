package notation

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	authority "github.com/gatehouse-dev/gatehouse/test/signatures/notation"
)

func TestConfigurationIsRefusedByFieldAndRemedy(t *testing.T) {
	ca := newAuthority(t, authority.Options{})
	leaf := issue(t, ca, authority.Leaf{}).Chain[0]
	key := must[[]byte](t)(x509.MarshalPKCS8PrivateKey(must[*rsa.PrivateKey](t)(rsa.GenerateKey(rand.Reader, 2048))))
	const certificates = "trustStores[corp].certificates[0]: "
	store := func(material ...[]byte) func(*Config) {
		return func(c *Config) { c.TrustStores[0].Certificates = material }
	}
	identities := func(texts ...string) func(*Config) {
		return func(c *Config) { c.TrustedIdentities = texts }
	}
	for name, test := range map[string]struct {
		edit func(*Config)
		says []string
	}{
		"no name":            {func(c *Config) { c.Name = "" }, []string{"name: ", "give it one"}},
		"no such level":      {func(c *Config) { c.Level = "strict" }, []string{`level: "strict"`, "Permissive"}},
		"no such revocation": {func(c *Config) { c.Revocation = "Off" }, []string{`revocation: "Off"`, "Skip"}},
		"nobody to ask with": {func(c *Config) { c.Revocation, c.HTTPClient = Enforce, nil }, []string{"revocation: ", "HTTP client"}},

		"no stores":             {func(c *Config) { c.TrustStores = nil }, []string{"trustStores: ", "type CA or SigningAuthority"}},
		"only time stamps":      {func(c *Config) { c.TrustStores[0].Type = TSA }, []string{"trustStores: ", "type CA or SigningAuthority"}},
		"a store twice":         {func(c *Config) { c.TrustStores = append(c.TrustStores, c.TrustStores[0]) }, []string{"trustStores[corp]: ", "rename one"}},
		"a store unnamed":       {func(c *Config) { c.TrustStores[0].Name = "" }, []string{"trustStores[0].name: "}},
		"too many stores":       {func(c *Config) { c.TrustStores = make([]TrustStore, 9) }, []string{"trustStores: ", "more than 8"}},
		"no such type":          {func(c *Config) { c.TrustStores[0].Type = "ca" }, []string{`trustStores[corp].type: "ca"`, "SigningAuthority"}},
		"an empty store":        {store(), []string{"trustStores[corp].certificates: ", "add the certificate"}},
		"an empty file":         {store([]byte("\n")), []string{certificates, "empty"}},
		"no PEM":                {store([]byte("MIIB…")), []string{certificates, "not PEM", "-----BEGIN CERTIFICATE-----"}},
		"DER":                   {store(ca.Root.Raw), []string{certificates, "DER", "openssl x509 -inform der"}},
		"half a certificate":    {store(ca.PEM()[:200]), []string{certificates, "damaged"}},
		"damaged inside":        {store(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Root.Raw[:100]})), []string{certificates, "certificate 1 in it does not parse"}},
		"a public key":          {store(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte{1}})), []string{certificates, `"PUBLIC KEY"`, "no certificate"}},
		"a private key":         {store(append(ca.PEM(), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...)), []string{certificates, "private key", "remove it"}},
		"a signing certificate": {store(authority.PEM(leaf)), []string{certificates, `"CN=release`, "Example Signing", "trustedIdentities"}},
		"a huge file":           {store(make([]byte, maxStoreBytes+1)), []string{certificates, "bytes"}},
		"too many certificates": {store([]byte(strings.Repeat(string(ca.PEM()), maxStoreCertificates+1))), []string{"trustStores[corp].certificates", "256"}},
		"a weak key":            {store(selfSigned(t, 1024)), []string{certificates, "1024 bits"}},
		"an intermediate for time stamps": {func(c *Config) {
			*c = stampedBy(*c, ca)
			c.TrustStores[1].Certificates = [][]byte{authority.PEM(ca.Intermediate)}
		}, []string{"trustStores[time].certificates[0]: ", "not a root"}},

		"nobody":               {identities(), []string{"trustedIdentities: ", "add an x509.subject"}},
		"everyone and one":     {identities("*", release), []string{"trustedIdentities[0]: ", "remove it"}},
		"one and everyone":     {identities(release, "*"), []string{"trustedIdentities[1]: ", "remove it"}},
		"too many identities":  {identities(make([]string, 17)...), []string{"trustedIdentities: ", "more than 16"}},
		"a long identity":      {identities("x509.subject: CN=" + strings.Repeat("x", 2000)), []string{"trustedIdentities[0]: ", "1024"}},
		"no prefix":            {identities("CN=release,O=Example,ST=WA,C=US"), []string{"trustedIdentities[0]: ", "write it as x509.subject: "}},
		"another prefix":       {identities("x509.san: a"), []string{"trustedIdentities[0]: ", `"x509.san: a"`}},
		"empty":                {identities("x509.subject:"), []string{"trustedIdentities[0]: "}},
		"no value":             {identities("x509.subject: CN=a,O,C=US"), []string{"trustedIdentities[0]: ", `"O,C"`}},
		"an empty value":       {identities("x509.subject: CN=,O=Example,ST=WA,C=US"), []string{"CN is empty"}},
		"an unknown attribute": {identities("x509.subject: NAME=a,O=Example,ST=WA,C=US"), []string{`"NAME"`, "use CN, OU"}},
		"an attribute twice":   {identities("x509.subject: CN=a,CN=b,O=Example,ST=WA,C=US"), []string{"CN stands there twice"}},
		"one by two names":     {identities("x509.subject: CN=a,O=Example,ST=WA,S=WA,C=US"), []string{"S stands there twice"}},
		"no country":           {identities("x509.subject: CN=a,O=Example,ST=WA"), []string{"no C"}},
		"no state":             {identities("x509.subject: CN=a,O=Example,C=US"), []string{"no ST"}},
		"no organization":      {identities("x509.subject: CN=a,ST=WA,C=US"), []string{"no O"}},
		"a joined attribute":   {identities("x509.subject: CN=a+OU=b,O=Example,ST=WA,C=US"), []string{"unescaped +", `\+`}},
		"hexadecimal":          {identities("x509.subject: CN=#0c0161,O=Example,ST=WA,C=US"), []string{"hexadecimal"}},
		"quotes":               {identities(`x509.subject: CN="a",O=Example,ST=WA,C=US`), []string{`unescaped "`}},
		"a lonely backslash":   {identities(`x509.subject: CN=a\,O=Example,ST=WA,C=U\`), []string{"backslash"}},
		"the same twice":       {identities(release, "x509.subject:C=US, ST=WA, O=Example, CN=release"), []string{"trustedIdentities[1]: ", "the same as trustedIdentities[0]"}},
	} {
		t.Run(name, func(t *testing.T) {
			config := trusting(ca)
			test.edit(&config)
			v, err := New(config)
			if err == nil || v != nil {
				t.Fatalf("it is accepted")
			}
			for _, text := range test.says {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("the error %q does not say %q", err, text)
				}
			}
			if strings.Contains(err.Error(), "\n") || len(err.Error()) > 600 {
				t.Errorf("the error %q is not one short line", err)
			}
		})
	}
}

func TestConfigurationsThatAreGood(t *testing.T) {
	ca := newAuthority(t, authority.Options{})
	for name, edit := range map[string]func(*Config){
		"defaults":              func(c *Config) { c.Level, c.Revocation, c.HTTPClient = "", "", http.DefaultClient },
		"text around":           func(c *Config) { c.TrustStores[0].Certificates[0] = append([]byte("# the root\n"), ca.PEM()...) },
		"several in one":        func(c *Config) { c.TrustStores[0].Certificates[0] = authority.PEM(ca.Root, ca.Intermediate) },
		"the same in two":       func(c *Config) { c.TrustStores[0].Certificates = [][]byte{ca.PEM(), ca.PEM()} },
		"a self-signed signer":  func(c *Config) { c.TrustStores[0].Certificates = [][]byte{selfSigned(t, 2048)} },
		"an authority's":        func(c *Config) { c.TrustStores[0].Type = SigningAuthority },
		"S for ST":              func(c *Config) { c.TrustedIdentities = []string{"x509.subject:CN=a,O=Example,S=WA,C=US"} },
		"lower case attributes": func(c *Config) { c.TrustedIdentities = []string{"x509.subject:cn=a, o=Example, st=WA, c=US"} },
		"time stamps":           func(c *Config) { *c = stampedBy(*c, ca) },
		"an expired root": func(c *Config) {
			c.TrustStores[0].Certificates = [][]byte{newAuthority(t, authority.Options{NotAfter: time.Now().Add(-time.Hour)}).PEM()}
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := trusting(ca)
			edit(&config)
			if _, err := New(config); err != nil {
				t.Error(err)
			}
		})
	}
}

func selfSigned(t *testing.T, bits int) []byte {
	t.Helper()
	key := must[*rsa.PrivateKey](t)(rsa.GenerateKey(rand.Reader, bits))
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "self"}, NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature,
	}
	return authority.PEM(must[*x509.Certificate](t)(x509.ParseCertificate(must[[]byte](t)(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)))))
}

func TestSubjectsAreReadAsRFC4514WritesThem(t *testing.T) {
	for text, want := range map[string]string{
		`CN=a,O=Example\, Inc.,ST=WA,C=US`:          "Example, Inc.",
		`CN=a,O=Example\2C Inc.,ST=WA,C=US`:         "Example, Inc.",
		`CN=a,O= Example , ST=WA,C=US`:              "Example",
		`CN=a,O=\ Example\ , ST=WA,C=US`:            " Example ",
		`CN=a,O=Ex=ample,ST=WA,C=US`:                "Ex=ample",
		`CN=a,O=a\\b,ST=WA,C=US`:                    `a\b`,
		`CN=a,O=L\C4\8Di\C4\87,ST=WA,C=US`:          "Lčić",
		`CN=a,O=\#1 \"x\" \+ \; \<\> \=,ST=WA,C=US`: `#1 "x" + ; <> =`,
	} {
		parsed, err := parseSubject(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := parsed["2.5.4.10"]; got != want {
			t.Errorf("%s: O is %q", text, got)
		}
	}
	if _, err := parseSubject(`CN=a,O=\C4,ST=WA,C=US`); err == nil || !strings.Contains(err.Error(), "UTF-8") {
		t.Errorf("what is no text is accepted: %v", err)
	}
}

// What a certificate's subject is printed as is an identity that matches it, if it
// states what the Notary Project requires.
func FuzzSubject(f *testing.F) {
	f.Add("release", "Example", "WA", "US")
	f.Add(" a,b+c\"\\;<>=#", "#x", "\\2C", "\x00\n")
	f.Add("č", " ", "  x  ", ",")
	f.Fuzz(func(t *testing.T, cn, o, st, c string) {
		if !utf8.ValidString(strings.Join([]string{cn, o, st, c}, " ")) {
			return // what is no text is printed as something else
		}
		name := pkix.Name{CommonName: cn, Organization: []string{o}, Province: []string{st}, Country: []string{c}}
		subject := pkix.Name{}
		sequence := name.ToRDNSequence()
		subject.FillFromRDNSequence(&sequence)
		parsed, err := parseSubject(subject.String())
		if err != nil {
			return
		}
		if !parsed.matches(subject) {
			t.Errorf("%s, read as %v, does not match itself", subject, parsed)
		}
		other := pkix.Name{CommonName: cn + "x", Organization: []string{o}, Province: []string{st}, Country: []string{c}}
		sequence = other.ToRDNSequence()
		subject = pkix.Name{}
		subject.FillFromRDNSequence(&sequence)
		if _, asked := parsed["2.5.4.3"]; asked && parsed.matches(subject) {
			t.Errorf("%v matches %s", parsed, subject)
		}
	})
}
