package notation

import (
	"cmp"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	anyone        = "*"
	subjectPrefix = "x509.subject:"
	identityForm  = "write it as x509.subject: CN=release,O=Example,ST=WA,C=US"
	maxIdentity   = 1024
	maxSubject    = 1024
)

// attributeTypes are the attributes of a subject by the names of RFC 4514 and
// RFC 5280, in the order in which a subject is written.
var attributeTypes = []struct {
	name string
	oid  string
}{
	{"CN", "2.5.4.3"},
	{"SERIALNUMBER", "2.5.4.5"},
	{"UID", "0.9.2342.19200300.100.1.1"},
	{"OU", "2.5.4.11"},
	{"O", "2.5.4.10"},
	{"STREET", "2.5.4.9"},
	{"L", "2.5.4.7"},
	{"ST", "2.5.4.8"},
	{"POSTALCODE", "2.5.4.17"},
	{"C", "2.5.4.6"},
	{"DC", "0.9.2342.19200300.100.1.25"},
}

func oidOf(name string) (string, bool) {
	if name == "S" { // another name of ST, which the Notary Project allows
		name = "ST"
	}
	for _, t := range attributeTypes {
		if t.name == name {
			return t.oid, true
		}
	}
	return "", false
}

// identity is what the subject of a certificate must have: values by the OID of
// their attribute. Empty is everyone.
type identity map[string]string

// matches reports whether subject has each of the attributes exactly once, with
// exactly this value. So neither a longer value nor a second one of the same type
// passes for the one that is trusted.
func (i identity) matches(subject pkix.Name) bool {
	found := map[string]int{}
	for _, attribute := range subject.Names {
		oid := attribute.Type.String()
		want, asked := i[oid]
		if !asked {
			continue
		}
		if value, ok := attribute.Value.(string); !ok || value != want {
			return false
		}
		found[oid]++
	}
	for oid := range i {
		if found[oid] != 1 {
			return false
		}
	}
	return true
}

// CheckIdentities says what New would refuse of trusted identities, whatever certificates there are.
func CheckIdentities(written []string) error {
	_, err := parseIdentities(written)
	return err
}

func parseIdentities(written []string) ([]identity, error) {
	if len(written) == 0 {
		return nil, errors.New("trustedIdentities: there is none, so nobody's signature would count: add an x509.subject, or * for every signer that the trust stores vouch for")
	}
	if len(written) > maxIdentities {
		return nil, fmt.Errorf("trustedIdentities: there are %d, more than %d: remove some", len(written), maxIdentities)
	}
	var identities []identity
	for i, text := range written {
		field := fmt.Sprintf("trustedIdentities[%d]", i)
		if text == anyone {
			if len(written) > 1 {
				return nil, fmt.Errorf("%s: * trusts every signer, so that the others mean nothing: remove it, or remove them", field)
			}
			return []identity{{}}, nil
		}
		if len(text) > maxIdentity {
			return nil, fmt.Errorf("%s: it has %d bytes, more than %d: state fewer attributes", field, len(text), maxIdentity)
		}
		subject, ok := strings.CutPrefix(text, subjectPrefix)
		if !ok {
			return nil, fmt.Errorf("%s: %s is no identity: %s", field, quoted(text), identityForm)
		}
		parsed, err := parseSubject(strings.TrimSpace(subject))
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", field, quoted(text), err)
		}
		for j, other := range identities {
			if maps.Equal(parsed, other) {
				return nil, fmt.Errorf("%s: it is the same as trustedIdentities[%d]: remove one", field, j)
			}
		}
		identities = append(identities, parsed)
	}
	return identities, nil
}

// parseSubject reads a distinguished name as RFC 4514 writes it, with what the
// Notary Project requires: country, state and organization are stated, and each
// attribute once.
func parseSubject(text string) (identity, error) {
	parsed := identity{}
	for rest := text; ; {
		name, after, found := strings.Cut(rest, "=")
		name = strings.ToUpper(strings.TrimSpace(name))
		if !found {
			return nil, fmt.Errorf("%s has no value: %s", quoted(name), identityForm)
		}
		oid, known := oidOf(name)
		if !known {
			return nil, fmt.Errorf("the attribute %s is not known: use CN, OU, O, STREET, L, ST, POSTALCODE, C, SERIALNUMBER, UID or DC", quoted(name))
		}
		value, left, more, err := parseValue(after)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if value == "" {
			return nil, fmt.Errorf("%s is empty: give it a value, or remove it", name)
		}
		if _, twice := parsed[oid]; twice {
			return nil, fmt.Errorf("%s stands there twice: keep one", name)
		}
		parsed[oid] = value
		if !more {
			break
		}
		rest = left
	}
	for _, name := range []string{"C", "ST", "O"} {
		if oid, _ := oidOf(name); parsed[oid] == "" {
			return nil, fmt.Errorf("it states no %s: the Notary Project requires C, ST and O, so add it as the certificate has it", name)
		}
	}
	return parsed, nil
}

// parseValue reads the value of an attribute up to the next comma, if more
// follows.
func parseValue(text string) (value, rest string, more bool, err error) {
	text = strings.TrimLeft(text, " ")
	if strings.HasPrefix(text, "#") {
		return "", "", false, errors.New("values in hexadecimal are not supported: write it as text")
	}
	var out []byte
	keep := 0 // bytes of out that end in something else than a space that may be trimmed
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case ',':
			return string(out[:keep]), text[i+1:], true, validText(out)
		case '+':
			return "", "", false, errors.New("an unescaped + joins attributes, which is not supported: separate them by commas, or write \\+")
		case '"', ';', '<', '>':
			return "", "", false, fmt.Errorf("an unescaped %c stands there: write \\%c", c, c)
		case '\\':
			escaped, size, err := unescape(text[i+1:])
			if err != nil {
				return "", "", false, err
			}
			out, i = append(out, escaped), i+size
			keep = len(out)
		default:
			if out = append(out, c); c != ' ' {
				keep = len(out)
			}
		}
	}
	return string(out[:keep]), "", false, validText(out)
}

func validText(value []byte) error {
	if !utf8.Valid(value) {
		return errors.New("it is not UTF-8: correct what stands after its backslashes")
	}
	return nil
}

// unescape reads what follows a backslash: a character that is special, or two
// hexadecimal digits.
func unescape(text string) (byte, int, error) {
	if text != "" && strings.IndexByte(` "#+,;<=>\`, text[0]) >= 0 {
		return text[0], 1, nil
	}
	if len(text) >= 2 {
		if b, err := hex.DecodeString(text[:2]); err == nil {
			return b[0], 2, nil
		}
	}
	return 0, 0, errors.New("a backslash escapes nothing there: write \\\\ for a backslash")
}

// signerOf is the one text of the signer that a certificate is for: its subject,
// with the attributes in one order, whatever the order in the certificate. So a
// person with two certificates is counted once.
func signerOf(c *x509.Certificate) (string, error) {
	if len(c.Subject.Names) == 0 {
		return "", errors.New("its subject is empty")
	}
	type part struct {
		rank int
		text string
	}
	parts := make([]part, len(c.Subject.Names))
	for i, name := range c.Subject.Names {
		parts[i] = part{rankOf(name), render(name)}
	}
	slices.SortFunc(parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.text, b.text))
	})
	texts := make([]string, len(parts))
	for i, part := range parts {
		texts[i] = part.text
	}
	text := strings.Join(texts, ",")
	if len(text) > maxSubject {
		return "", fmt.Errorf("its subject has more than %d bytes", maxSubject)
	}
	return "x509:" + text, nil
}

func rankOf(attribute pkix.AttributeTypeAndValue) int {
	oid := attribute.Type.String()
	for rank, t := range attributeTypes {
		if t.oid == oid {
			return rank
		}
	}
	return len(attributeTypes)
}

// render writes one attribute on one line, and two different ones never alike:
// RFC 4514 leaves no backslash before a letter, so what is escaped for not being
// printable cannot be mistaken for what was written so.
func render(attribute pkix.AttributeTypeAndValue) string {
	text := pkix.RDNSequence{{attribute}}.String()
	if strings.IndexFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) < 0 {
		return text
	}
	escaped := strconv.Quote(text)
	return escaped[1 : len(escaped)-1]
}
