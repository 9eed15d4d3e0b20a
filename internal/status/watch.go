package status

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

// settle is how long more changes are waited for before they are shown together.
const settle = 300 * time.Millisecond

// news shows each list that is another than the one before, until the context ends.
type news func(ctx context.Context, show func(*List) error) error

// watch shows a list and what becomes of it until the context ends, and answers by what was shown last.
func (o Options) watch(ctx context.Context, r *reading, versions map[*collection]string, list *List) (Answer, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changed := make(chan struct{}, 1)
	var followers sync.WaitGroup
	defer followers.Wait() // after cancel: whoever began them ends them
	defer cancel()
	for _, c := range append(slices.Clone(r.asked), r.pods) {
		followers.Go(func() {
			c.follow(ctx, r.client, versions[c], func() {
				select {
				case changed <- struct{}{}:
				default: // one that was not taken yet stands for this one too
				}
			})
		})
	}
	lists := func(ctx context.Context, show func(*List) error) error {
		for next(ctx, changed) {
			again := Build(r.facts(ctx))
			if ctx.Err() != nil {
				return nil // what was cut off is no news
			}
			if reflect.DeepEqual(again, list) {
				continue
			}
			list = again
			if err := show(list); err != nil {
				return err
			}
		}
		return nil
	}
	var err error
	if o.Terminal && o.Output != JSON && o.Output != YAML {
		err = o.live(ctx, list, lists)
		if err == nil {
			err = o.print(list) // the terminal keeps what was seen last
		}
	} else {
		err = o.append(ctx, list, lists)
	}
	return list.Answer(), err
}

// next waits for a change, and for those that come with it. It is false when there will be none.
func next(ctx context.Context, changed <-chan struct{}) bool {
	select {
	case <-ctx.Done():
		return false
	case <-changed:
	}
	timer := time.NewTimer(settle)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	}
	select {
	case <-changed:
	default:
	}
	return true
}

// append prints the list, and after each change the rows that are other than before, as kubectl does; JSON and YAML are
// printed whole each time.
func (o Options) append(ctx context.Context, list *List, lists news) error {
	if o.Output == JSON || o.Output == YAML {
		if err := o.encode(list); err != nil {
			return err
		}
		return lists(ctx, func(list *List) error {
			if o.Output == YAML {
				if _, err := fmt.Fprintln(o.Out, "---"); err != nil {
					return err
				}
			}
			return o.encode(list)
		})
	}
	p := &printed{options: o}
	if err := p.show(list); err != nil {
		return err
	}
	return lists(ctx, p.show)
}

// printed is what has been printed already.
type printed struct {
	options Options
	widths  widths
	header  bool
	rows    map[string]row
	remarks []string
}

func (r row) key() string { return r.executor + "\x00" + r.replica }

// show prints the rows that are new or other, each replica's below its Executor's, and those that are gone as such.
func (p *printed) show(list *List) error {
	t := newTable(list, p.options.Output == Wide, p.options.Clock.Now())
	p.widths = p.widths.fit(t)
	now := map[string]row{}
	touched := map[string]bool{}
	for _, r := range t.rows {
		now[r.key()] = r
		if before, known := p.rows[r.key()]; !known || before.content != r.content {
			touched[r.executor] = true
		}
	}
	var lost []row
	for key, r := range p.rows {
		if _, still := now[key]; !still {
			touched[r.executor] = true
			r.cells = append(slices.Clone(r.cells[:len(r.cells)-1]), "gone")
			lost = append(lost, r)
		}
	}
	slices.SortFunc(lost, func(a, b row) int { return strings.Compare(a.key(), b.key()) })
	var lines []string
	if !p.header && len(t.rows) > 0 {
		lines, p.header = append(lines, p.widths.layout(t.header)), true
	}
	for i, r := range t.rows {
		before, known := p.rows[r.key()]
		if touched[r.executor] && (r.replica == "" || !known || before.content != r.content) {
			lines = append(lines, p.widths.layout(r.cells))
		}
		if last := i == len(t.rows)-1 || t.rows[i+1].executor != r.executor; last {
			lost = slices.DeleteFunc(lost, func(l row) bool {
				if l.executor == r.executor {
					lines = append(lines, p.widths.layout(l.cells))
				}
				return l.executor == r.executor
			})
		}
	}
	for _, l := range lost { // of Executors that are gone themselves
		if l.replica == "" {
			lines = append(lines, p.widths.layout(l.cells))
		}
	}
	p.rows = now
	if _, err := fmt.Fprint(p.options.Out, strings.Join(append(lines, ""), "\n")); err != nil {
		return err
	}
	said := remarks(list)
	news := slices.DeleteFunc(slices.Clone(said), func(l string) bool { return slices.Contains(p.remarks, l) })
	p.remarks = said
	return printRemarks(p.options.Err, news)
}
