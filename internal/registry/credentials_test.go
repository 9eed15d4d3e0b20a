package registry_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"

	"github.com/gatehouse-dev/gatehouse/internal/registry"
	testregistry "github.com/gatehouse-dev/gatehouse/test/registry"
)

// credentials makes a docker configuration: user:password by host.
func credentials(tb testing.TB, entries map[string]string) *registry.DockerConfig {
	tb.Helper()
	auths := map[string]map[string]string{}
	for host, pair := range entries {
		auths[host] = map[string]string{"auth": base64.StdEncoding.EncodeToString([]byte(pair))}
	}
	data, err := json.Marshal(map[string]any{"auths": auths})
	if err != nil {
		tb.Fatal(err)
	}
	config, err := registry.ParseDockerConfig(data)
	if err != nil {
		tb.Fatal(err)
	}
	return config
}

func TestCredentialsOpenWhatTheyAreFor(t *testing.T) {
	for name, option := range map[string]testregistry.Option{
		"basic": testregistry.WithBasicAuth("robot", "hunter2"),
		"token": testregistry.WithTokenAuth("robot", "hunter2"),
	} {
		hub := testregistry.Start(t, testregistry.WithTLS(), option)
		want := hub.PushImage(t, "team/gw", "1.0")
		c := client(t, registry.Options{})
		ref := hub.Reference("team/gw", "1.0")
		for _, key := range []string{
			hub.Host, "https://" + hub.Host, "https://" + hub.Host + "/v2/", hub.Host + "/v1/",
			hub.Host + "/team", hub.Host + "/team/gw", strings.Replace(hub.Host, "127.0.0", "*.0.*", 1),
		} {
			if got := success(t, c, ref, registry.Access{CABundle: hub.CA, Credentials: credentials(t, map[string]string{key: "robot:hunter2"})}); got != want {
				t.Errorf("%s, %s: got %s, want %s", name, key, got, want)
			}
		}
		for key, row := range map[string]struct {
			access registry.Access
			text   string
		}{
			"wrong": {registry.Access{Credentials: credentials(t, map[string]string{hub.Host: "robot:guess"})}, "the credentials are wrong or do not allow to pull"},
			"the wrong ones are more specific": {
				registry.Access{Credentials: credentials(t, map[string]string{hub.Host: "robot:hunter2", hub.Host + "/team/gw": "robot:guess"})},
				"the credentials are wrong or do not allow to pull",
			},
			"for another repository": {registry.Access{Credentials: credentials(t, map[string]string{hub.Host + "/team/g": "robot:hunter2"})}, "the credentials have no entry for this repository"},
			"for another host":       {registry.Access{Credentials: credentials(t, map[string]string{"reg.example.com": "robot:hunter2"})}, "the credentials have no entry for this repository"},
			"for another port":       {registry.Access{Credentials: credentials(t, map[string]string{"127.0.0.1": "robot:hunter2"})}, "the credentials have no entry for this repository"},
			"none":                   {registry.Access{}, "it does not exist or needs credentials"},
		} {
			row.access.CABundle = hub.CA
			e := failure(t, c, ref, row.access)
			if e.Kind != registry.Unauthorized || e.Terminal() || e.Error() != "registry "+hub.Host+": repository team/gw: unauthorized; "+row.text {
				t.Errorf("%s, %s: got %s, %q (%s)", name, key, e.Kind, e, e.Detail)
			}
		}
	}
}

func TestAnAnonymousTokenNeedsNoCredentials(t *testing.T) {
	for _, access := range []registry.Access{{}, plain} {
		options := []testregistry.Option{testregistry.WithTokenAuth("", "")}
		if !access.PlainHTTP {
			options = append(options, testregistry.WithTLS())
		}
		hub := testregistry.Start(t, options...)
		access.CABundle = hub.CA
		hub.PushImage(t, "team/gw", "1.0")
		success(t, client(t, registry.Options{}), hub.Reference("team/gw", "1.0"), access)
	}
}

func TestCredentialsGoToNoOtherHostByRealm(t *testing.T) {
	tokens := testregistry.Start(t, testregistry.WithTLS(), testregistry.WithTokenAuth("robot", "hunter2"))
	hub := testregistry.Start(t, testregistry.WithTLS(), testregistry.WithTokenAuth("robot", "hunter2"), testregistry.WithRealm(tokens.URL()+"/token"))
	hub.PushImage(t, "team/gw", "1.0")
	both := append(append([]byte{}, hub.CA...), tokens.CA...)
	c := client(t, registry.Options{})

	access := registry.Access{CABundle: both, Credentials: credentials(t, map[string]string{hub.Host: "robot:hunter2", "127.0.0.*": "robot:hunter2"})}
	e := failure(t, c, hub.Reference("team/gw", "1.0"), access)
	if want := "repository team/gw: unauthorized; its token service is on another host, to which the credentials are not sent; give an entry for that host beside them"; e.Kind != registry.Unauthorized || !strings.HasSuffix(e.Error(), want) {
		t.Errorf("got %s, %q", e.Kind, e)
	}
	if len(tokens.Requests()) == 0 {
		t.Error("the token service is not even asked anonymously, so this proves nothing")
	}
	for _, req := range tokens.Requests() {
		if req.Authorization != "" {
			t.Fatalf("%s went to another host", req.Authorization)
		}
	}

	access.Credentials = credentials(t, map[string]string{hub.Host: "robot:hunter2", tokens.Host: "robot:hunter2"})
	success(t, c, hub.Reference("team/gw", "1.0"), access)
}

func TestAnIdentityTokenGoesToNoOtherHost(t *testing.T) {
	tokens := testregistry.Start(t, testregistry.WithTLS(), testregistry.WithTokenAuth("robot", "hunter2"))
	hub := testregistry.Start(t, testregistry.WithTLS(), testregistry.WithTokenAuth("robot", "hunter2"), testregistry.WithRealm(tokens.URL()+"/token"))
	config, err := registry.ParseDockerConfig(fmt.Appendf(nil, `{"auths":{%q:{"username":"robot","identitytoken":"hunter2-identity"}}}`, hub.Host))
	if err != nil {
		t.Fatal(err)
	}
	access := registry.Access{CABundle: append(append([]byte{}, hub.CA...), tokens.CA...), Credentials: config}
	e := failure(t, client(t, registry.Options{}), hub.Reference("team/gw", "1.0"), access)
	if e.Kind != registry.Unauthorized || !strings.Contains(e.Error(), "token service is on another host") {
		t.Errorf("got %s, %q", e.Kind, e)
	}
	if n := len(tokens.Requests()); n != 0 {
		t.Errorf("%d requests reached the other host", n)
	}
}

func TestCredentialsGoToNoOtherHostByRedirect(t *testing.T) {
	for name, option := range map[string]testregistry.Option{
		"basic": testregistry.WithBasicAuth("robot", "hunter2"),
		"token": testregistry.WithTokenAuth("robot", "hunter2"),
	} {
		thief := testregistry.Start(t, testregistry.WithTLS(), option)
		hub := testregistry.Start(t, testregistry.WithTLS(), option)
		hub.PushImage(t, "team/gw", "1.0")
		access := registry.Access{
			CABundle:    append(append([]byte{}, hub.CA...), thief.CA...),
			Credentials: credentials(t, map[string]string{hub.Host: "robot:hunter2", thief.Host: "robot:hunter2"}),
		}
		c := client(t, registry.Options{})
		success(t, c, hub.Reference("team/gw", "1.0"), access)
		for _, path := range []string{"/v2/", "/token"} {
			if name == "basic" && path == "/token" {
				continue
			}
			hub.BreakPath(path, onlyWithAuthorization(testregistry.RedirectTo(thief.URL())))
			failure(t, c, hub.Reference("team/gw", "1.0"), access)
		}
		if len(thief.Requests()) == 0 {
			t.Errorf("%s: no redirect was followed, so this proves nothing", name)
		}
		for _, req := range thief.Requests() {
			if req.Authorization != "" {
				t.Errorf("%s: %s of %s went to another host", name, req.Authorization, req.Path)
			}
		}
	}
}

// onlyWithAuthorization misbehaves once credentials come.
func onlyWithAuthorization(fault testregistry.Fault) testregistry.Fault {
	return func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if req.Header.Get("Authorization") == "" {
			next.ServeHTTP(w, req)
			return
		}
		fault(w, req, next)
	}
}

func TestDockerHubHasItsTokenServiceElsewhere(t *testing.T) {
	tokens := testregistry.Start(t, testregistry.WithTLS("auth.docker.io"), testregistry.WithTokenAuth("robot", "hunter2"))
	hub := testregistry.Start(t, testregistry.WithTLS("registry-1.docker.io"), testregistry.WithTokenAuth("robot", "hunter2"), testregistry.WithRealm("https://auth.docker.io/token"))
	want := hub.PushImage(t, "team/gw", "1.0")
	c := client(t, registry.Options{Dial: dialTo(map[string]string{"registry-1.docker.io:443": hub.Host, "auth.docker.io:443": tokens.Host})})
	for _, key := range []string{"https://index.docker.io/v1/", "docker.io", "registry-1.docker.io"} {
		access := registry.Access{
			CABundle:    append(append([]byte{}, hub.CA...), tokens.CA...),
			Credentials: credentials(t, map[string]string{key: "robot:hunter2"}),
		}
		if got := success(t, c, "team/gw:1.0", access); got != want {
			t.Errorf("%s: got %s, want %s", key, got, want)
		}
	}
}

func TestATokenServiceOverPlainHTTPIsRefused(t *testing.T) {
	tokens := testregistry.Start(t, testregistry.WithTokenAuth("", ""))
	for _, tls := range []bool{true, false} {
		options := []testregistry.Option{testregistry.WithTokenAuth("", ""), testregistry.WithRealm(tokens.URL() + "/token")}
		access := plain
		if tls {
			options = append(options, testregistry.WithTLS())
			access = registry.Access{}
		}
		hub := testregistry.Start(t, options...)
		access.CABundle = hub.CA
		failure(t, client(t, registry.Options{}), hub.Reference("team/gw", "1.0"), access)
		if n := len(tokens.Requests()); n != 0 {
			t.Errorf("TLS %t: %d requests went there", tls, n)
		}
	}
}

func TestSecretsAreNowhere(t *testing.T) {
	// A peer that knows the credentials repeats them wherever it can.
	hub := testregistry.Start(t, testregistry.WithTLS())
	hub.Break(func(w http.ResponseWriter, req *http.Request, _ http.Handler) {
		if req.Header.Get("Authorization") == "" {
			w.Header().Set("Www-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		user, password, _ := req.BasicAuth()
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, "hello ", user, password, " ", req.Header.Get("Authorization"))
	})
	access := registry.Access{CABundle: hub.CA, Credentials: credentials(t, map[string]string{hub.Host: "robot:hunter2"})}
	e := failure(t, client(t, registry.Options{}), hub.Host+"/team/gw@"+missing, access) // a GET, so that it has room to speak
	if !strings.Contains(e.Detail, "hello") {
		t.Errorf("the peer did not speak, so this proves nothing: %s", e.Detail)
	}

	var logged strings.Builder
	funcr.NewJSON(func(line string) { logged.WriteString(line) }, funcr.Options{}).Info("access", "access", access, "credentials", access.Credentials)
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("access", "access", access, "credentials", access.Credentials)
	encoded, err := json.Marshal(access)
	if err != nil {
		t.Fatal(err)
	}
	nested := struct {
		access registry.Access
		config registry.DockerConfig
	}{access, *access.Credentials}
	dumps := []string{e.Error(), e.Detail, fmt.Sprintf("%+v", e), logged.String(), string(encoded)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		dumps = append(dumps, fmt.Sprintf(verb, access), fmt.Sprintf(verb, access.Credentials), fmt.Sprintf(verb, *access.Credentials), fmt.Sprintf(verb, nested))
	}
	encodedPair := base64.StdEncoding.EncodeToString([]byte("robot:hunter2"))
	for _, dump := range dumps {
		for _, secret := range []string{"hunter2", encodedPair, fmt.Sprintf("%x", "hunter2")} {
			if strings.Contains(dump, secret) {
				t.Errorf("%q stands in %s", secret, dump)
			}
		}
	}
}

func TestADockerConfigIsReadStrictly(t *testing.T) {
	for data, want := range map[string]string{
		`hunter2`:                                 "docker configuration: not the JSON of a docker configuration; write {\"auths\": {\"registry.example.com\": {\"username\": …, \"password\": …}}}",
		`{"auths":{"a":"hunter2"}}`:               "docker configuration: not the JSON of a docker configuration; write {\"auths\": {\"registry.example.com\": {\"username\": …, \"password\": …}}}",
		`{}`:                                      "docker configuration: auths has no entry; name the registry there",
		`{"auths":{"a\n":{"email":"x"}}}`:         `docker configuration: entry "a\n": no username, password or token; give one, or remove the entry`,
		`{"auths":{"a":{"auth":"hunter2!"}}}`:     `docker configuration: entry "a": auth: not base64; encode user:password`,
		`{"auths":{"a":{"auth":"aHVudGVyMg=="}}}`: `docker configuration: entry "a": auth: not user:password`,
		`{"auths":{"a":{"password":"` + strings.Repeat("hunter2", 200_000) + `"}}}`:              "docker configuration: larger than 1 MiB",
		`{"auths":{` + strings.TrimSuffix(repeated(1001, `"a%d":{"username":"x"},`), ",") + `}}`: "docker configuration: more than 1000 entries",
	} {
		config, err := registry.ParseDockerConfig([]byte(data))
		if err == nil || err.Error() != want || config != nil {
			t.Errorf("%.80s: got %v and %v", data, config, err)
		}
	}
}

func repeated(n int, format string) string {
	var s strings.Builder
	for i := range n {
		fmt.Fprintf(&s, format, i)
	}
	return s.String()
}

func FuzzParseDockerConfig(f *testing.F) {
	f.Add([]byte(`{"auths":{"https://index.docker.io/v1/":{"auth":"cm9ib3Q6aHVudGVyMg=="}}}`))
	f.Add([]byte(`{"auths":{"*.example.com/a/b":{"username":"robot","password":"hunter2","identitytoken":"x","registrytoken":"y"}}}`))
	f.Add([]byte(`{"auths":{"[::1]:5000":{"username":"["},"]:":{"password":"["}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		config, err := registry.ParseDockerConfig(data)
		if (config == nil) == (err == nil) {
			t.Fatalf("%v and %v", config, err)
		}
		if again, _ := registry.ParseDockerConfig(data); err == nil && config.String() != again.String() {
			t.Fatal("read two ways")
		}
	})
}
