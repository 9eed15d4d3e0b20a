package podstatus

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

func version(uid types.UID, resourceVersion string) *v1alpha1.ExecutorPodStatus {
	return &v1alpha1.ExecutorPodStatus{ObjectMeta: metav1.ObjectMeta{Name: "report", UID: uid, ResourceVersion: resourceVersion}}
}

// What a process has written is what it goes on from, until its cache shows that or something after it.
func TestLatest(t *testing.T) {
	wrote := func(l *latest) { l.is(version("a", "20")) }
	deleted := func(l *latest) { l.gone("report", "a") }
	for _, test := range []struct {
		name   string
		known  func(*latest)
		cached *v1alpha1.ExecutorPodStatus
		want   string // the resource version
		doubt  bool
	}{
		{"nothing is known", func(*latest) {}, version("a", "20"), "20", false},
		{"the cache is behind", wrote, version("a", "9"), "20", false},
		{"the cache shows what was before", wrote, version("before", "9"), "20", false},
		{"the cache shows nothing yet", wrote, nil, "20", true},
		{"the cache is ahead", wrote, version("a", "100"), "100", false},
		{"the cache shows another that came after", wrote, version("b", "100"), "100", false},
		{"the cache shows what is gone", deleted, version("a", "20"), "", false},
		{"the cache shows another than the one that is gone", deleted, version("b", "30"), "30", false},
		{"it is gone, and the cache knows", deleted, nil, "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLatest(clocktesting.NewFakePassiveClock(time.Unix(1_800_000_000, 0)))
			test.known(l)
			report, doubt := l.of("report", test.cached)
			got := ""
			if report != nil {
				got = report.ResourceVersion
			}
			if got != test.want || doubt.IsZero() == test.doubt {
				t.Errorf("version %q, doubt %s; want %q, doubt %t", got, doubt, test.want, test.doubt)
			}
		})
	}
}

// An event wakes the Reporter only if it tells of something that the Reporter has not done itself.
func TestItsOwnWritesAreNoNews(t *testing.T) {
	wrote := func(l *latest) { l.is(version("a", "20")) }
	deleted := func(l *latest) { l.gone("report", "a") }
	for _, test := range []struct {
		name             string
		known            func(*latest)
		event            *v1alpha1.ExecutorPodStatus
		deleted, certain bool
		news             bool
		forgotten        bool // it is left to the cache from here on
	}{
		{"nothing is known", func(*latest) {}, version("a", "20"), false, true, true, true},
		{"what was written", wrote, version("a", "20"), false, true, false, true},
		{"what was before that", wrote, version("a", "9"), false, true, false, false},
		{"what somebody wrote after", wrote, version("a", "100"), false, true, true, true},
		{"that somebody deleted it", wrote, version("a", "100"), true, true, true, true},
		{"that what was before it was deleted", wrote, version("before", "19"), true, true, false, false},
		{"that it is not there any more, of when is not known", wrote, version("a", "9"), true, false, true, true},
		{"what is gone, as it was", deleted, version("a", "9"), false, true, false, false},
		{"that it is gone", deleted, version("a", "21"), true, true, false, true},
		{"another than the one that is gone", deleted, version("b", "30"), false, true, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLatest(clocktesting.NewFakePassiveClock(time.Unix(1_800_000_000, 0)))
			test.known(l)
			if news := l.news(test.event, test.deleted, test.certain); news != test.news {
				t.Errorf("news %t, want %t", news, test.news)
			}
			if _, known := l.known["report"]; known == test.forgotten {
				t.Errorf("still known %t, want forgotten %t", known, test.forgotten)
			}
		})
	}
}
