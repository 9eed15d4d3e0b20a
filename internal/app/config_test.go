package app

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/leaderelection"
)

// Fails when, by default, another replica leads later than two seconds after the lease has ended or was given up. A
// candidate's looks at it are up to 1+JitterFactor periods apart: one may just have missed the last renewal, and one may
// just miss the end.
func TestByDefaultAnotherLeadsWithinTwoSecondsOfTheLease(t *testing.T) {
	var config Config
	config.AddFlags(pflag.NewFlagSet("manager", pflag.ContinueOnError))
	apart := time.Duration((1 + leaderelection.JitterFactor) * float64(config.RetryPeriod))
	if worst := 2 * apart; worst > 2*time.Second {
		t.Errorf("another may lead %s after the lease has ended", worst)
	}
}

func TestConfigurationIsCheckedBeforeAnythingStarts(t *testing.T) {
	tests := []struct {
		args []string
		want string
	}{
		{nil, ""},
		{[]string{"--namespace=Not_A_Name"}, `--namespace "Not_A_Name"`},
		{[]string{"--renew-deadline=20s"}, "--lease-duration 15s must be longer than --renew-deadline 20s"},
		{[]string{"--retry-period=0s"}, "--retry-period"},
		{[]string{"--lease-duration=1500ms", "--renew-deadline=1s"}, "--lease-duration 1.5s must be whole seconds"},
		{[]string{"--renew-deadline=20s", "--leader-elect=false"}, ""},
		{[]string{"--kube-api-qps=0"}, "--kube-api-qps 0"},
		{[]string{"--workers=0"}, "--workers 0 must be from 1 to 256"},
		{[]string{"--resync=1ms"}, "--resync 1ms must be at least 1s"},
		{[]string{"--oci-layout-root=mirror"}, `--oci-layout-root "mirror" must be an absolute path`},
		{[]string{"--oci-layout-root=/var/mirror"}, ""},
		{[]string{"--pod-name=gatehouse-0", "--pod-uid=1"}, ""},
		{[]string{"--pod-name=Gatehouse"}, `--pod-name "Gatehouse"`},
		{[]string{"--pod-name=", "--pod-uid=1"}, `--pod-uid "1" needs --pod-name`},
		{[]string{"--log-level=loud"}, `--log-level "loud": write debug, info, warn or error`},
		{[]string{"--log-format=xml"}, `--log-format "xml": write json or text`},
	}
	for _, test := range tests {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			var config Config
			flags := pflag.NewFlagSet("manager", pflag.ContinueOnError)
			config.AddFlags(flags)
			if err := flags.Parse(test.args); err != nil {
				t.Fatal(err)
			}
			err := config.Validate()
			switch {
			case test.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want a refusal with %q", err, test.want)
			}
		})
	}
}
