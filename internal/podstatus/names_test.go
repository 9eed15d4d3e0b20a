package podstatus_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/podstatus"
)

// reported is what a name stands for.
type reported struct{ pod, kind, namespace, name string }

func (r reported) pack() string {
	return podstatus.PackName(r.pod, v1alpha1.ExecutorIdentity{Kind: v1alpha1.ExecutorKind(r.kind), Namespace: r.namespace, Name: r.name})
}

func cluster(pod, name string) reported {
	return reported{pod, string(v1alpha1.KindExecutor), "", name}
}

func tenants(pod, namespace, name string) reported {
	return reported{pod, string(v1alpha1.KindNamespacedExecutor), namespace, name}
}

func TestPackName(t *testing.T) {
	long := strings.Repeat("a", validation.DNS1123SubdomainMaxLength)
	for _, test := range []struct {
		name string
		of   reported
		want string // by its beginning, if it ends so: …
	}{
		{"a cluster's Executor", cluster("gatehouse-0", "production"), "m5qxizlin52xgzjnga-iv4gky3vorxxe-obzg6zdvmn2gs33o"},
		{"a tenant's", tenants("gatehouse-0", "team", "own"), "m5qxizlin52xgzjnga-jzqw2zltobqwgzleiv4gky3vorxxe-orswc3i-n53w4"},
		{"a pod's name of 253 characters", cluster(long, "production"), "hashed-…"},
		{"an Executor's name of 253 characters", cluster("gatehouse-0", long), "hashed-…"},
		{"both", cluster(long, long), "hashed-…"},
		{"the longest that is packed", cluster(strings.Repeat("a", 100), strings.Repeat("b", 48)), "mfqwcylb…"},
		{"one character more", cluster(strings.Repeat("a", 100), strings.Repeat("b", 50)), "hashed-…"},
		{"no pod", cluster("", "production"), "hashed-…"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := test.of.pack()
			beginning, cut := strings.CutSuffix(test.want, "…")
			if got != test.want && (!cut || !strings.HasPrefix(got, beginning)) {
				t.Errorf("%s, want %s", got, test.want)
			}
			valid(t, got)
			if test.of.pack() != got {
				t.Error("it is another the second time")
			}
		})
	}
}

type failer interface {
	Helper()
	Fatalf(string, ...any)
}

func valid(t failer, name string) {
	t.Helper()
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		t.Fatalf("%s is no name: %s", name, problems)
	}
}

// subdomain draws names as Kubernetes has them, up to the longest.
func subdomain(longest int) *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringMatching(`[a-z0-9]([-a-z0-9.]{0,40}[a-z0-9])?`),
		rapid.Map(rapid.IntRange(1, longest), func(n int) string { return strings.Repeat("a", n) }),
		rapid.SampledFrom([]string{"a", "a-b", "b-a", "a.b", "aa", strings.Repeat("z", longest)}),
	)
}

func identities() *rapid.Generator[reported] {
	return rapid.Custom(func(t *rapid.T) reported {
		pod, name := subdomain(253).Draw(t, "pod"), subdomain(253).Draw(t, "name")
		if rapid.Bool().Draw(t, "cluster") {
			return cluster(pod, name)
		}
		return tenants(pod, subdomain(63).Draw(t, "namespace"), name)
	})
}

// A name is one that Kubernetes takes, says again what it was made of unless it is a hash, and is nobody else's.
func TestNamesArePackedAndUnpacked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one, other := identities().Draw(t, "one"), identities().Draw(t, "other")
		name := one.pack()
		valid(t, name)
		if name != one.pack() {
			t.Fatalf("%+v has two names", one)
		}
		if (name == other.pack()) != (one == other) {
			t.Fatalf("%+v and %+v: %s and %s", one, other, name, other.pack())
		}
		hashed := strings.HasPrefix(name, "hashed-")
		pod, kind, namespace, object, ok := podstatus.UnpackName(name)
		if ok == hashed {
			t.Fatalf("%s: hashed %t, unpacked %t", name, hashed, ok)
		}
		if again := (reported{pod, kind, namespace, object}); ok && again != one {
			t.Fatalf("%+v came back as %+v", one, again)
		}
		// Whatever fits is packed: each byte needs 8/5 of a character, and each part is rounded up.
		length := 2
		for _, part := range []string{one.pod, one.kind, one.namespace, one.name} {
			length += (len(part)*8 + 4) / 5
		}
		if one.namespace != "" {
			length++
		}
		if hashed != (length > 253) {
			t.Fatalf("%+v: %d characters when packed, and hashed is %t", one, length, hashed)
		}
	})
}

// Parts that run together differently are different, packed and hashed.
func TestPartsDoNotRunTogether(t *testing.T) {
	long := strings.Repeat("a", 200)
	names := map[string]reported{}
	for _, of := range []reported{
		cluster("a-b", "c"), cluster("a", "b-c"), tenants("a", "b", "c"), tenants("a", "bc", "d"), tenants("a", "b", "cd"),
		cluster("Executor", "a"), {"a", "b", "c", "d"}, {"a", "b-c", "", "d"},
		cluster(long+"b", long), cluster(long, "b"+long), tenants(long, "b", long), tenants(long, "bb", long), tenants(long, "b", "b"+long),
		{"", long, "", long}, {long, "", "", long}, {long, long, "", ""}, {long, "", long, ""}, {"", "", "", ""},
	} {
		name := of.pack()
		valid(t, name)
		if other, taken := names[name]; taken {
			t.Errorf("%+v and %+v are both %s", of, other, name)
		}
		names[name] = of
	}
}

func TestUnpackNameRefusesWhatPackNameDoesNotMake(t *testing.T) {
	for _, name := range []string{
		"", "-", "--", "---", "hashed-", "hashed-aaaa", "gatehouse-0", "me-me", "me-me-", "-me-me", "me--me-me", "me-me-me-me-me",
		"mf-me-me",   // the bits that are left over are not zero
		"ME-me-me",   // upper case
		"me=-me-me",  // padding
		"m-me-me",    // no whole byte
		"me-me-me\n", // white space
		"me-me-" + strings.Repeat("me", 125),
	} {
		if pod, kind, namespace, object, ok := podstatus.UnpackName(name); ok {
			t.Errorf("%q is %q %q %q %q", name, pod, kind, namespace, object)
		}
	}
}

// FuzzNames: whatever a name says, it says it in one way; and whatever identities there are, their name is valid.
func FuzzNames(f *testing.F) {
	for _, of := range []reported{cluster("gatehouse-0", "production"), tenants("gatehouse-7d9-abcde", "team", "own"), cluster(strings.Repeat("a", 253), strings.Repeat("b", 253)), {}} {
		f.Add(of.pack(), of.pod, of.kind, of.namespace, of.name)
	}
	f.Add("mf-me-me", "a", "b", "", "c")
	f.Fuzz(func(t *testing.T, text, pod, kind, namespace, object string) {
		if p, k, n, o, ok := podstatus.UnpackName(text); ok {
			if again := (reported{p, k, n, o}).pack(); again != text {
				t.Errorf("%q is read from %q, which is written %q", reported{p, k, n, o}, text, again)
			}
		}
		of := reported{pod, kind, namespace, object}
		name := of.pack()
		valid(t, name)
		if p, k, n, o, ok := podstatus.UnpackName(name); ok && (reported{p, k, n, o}) != of {
			t.Errorf("%q came back as %q", of, reported{p, k, n, o})
		}
	})
}
