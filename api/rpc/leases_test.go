package rpc

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// Values expire at their deadlines, in order, and not when they were taken or renewed.
func TestLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var mu sync.Mutex // expiries may overlap
		var gone []string
		s := newLeases(3, func(key string, value int) {
			mu.Lock()
			defer mu.Unlock()
			gone = append(gone, fmt.Sprintf("%s=%d after %v", key, value, time.Since(start)))
		})
		s.put("late", 1, start.Add(3*time.Second))
		s.put("early", 2, start.Add(time.Second))
		s.put("taken", 3, start.Add(2*time.Second))
		if s.put("more", 4, start.Add(time.Second)) {
			t.Error("there is room for a fourth of three")
		}
		if v, ok := s.take("taken"); v != 3 || !ok {
			t.Errorf("take: %v, %v", v, ok)
		}
		if _, ok := s.take("taken"); ok {
			t.Error("taken twice")
		}
		time.Sleep(2500 * time.Millisecond)
		if v, deadline, ok := s.renew("late", func(int) time.Duration { return 2 * time.Second }); v != 1 || !ok || deadline != start.Add(4500*time.Millisecond) {
			t.Errorf("renew: %v, %v, %v", v, deadline, ok)
		}
		if _, _, ok := s.renew("early", func(int) time.Duration { return time.Hour }); ok {
			t.Error("renewed what is over")
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if want := []string{"early=2 after 1s", "late=1 after 4.5s"}; !slices.Equal(gone, want) {
			t.Errorf("expired %q, want %q", gone, want)
		}
		s.put("last", 5, time.Now().Add(time.Hour))
		s.close()
		if len(gone) != 3 || s.len() != 0 {
			t.Errorf("after close %d are left, %q", s.len(), gone)
		}
	})
}

// Whatever is done to leases, each value ends exactly once: taken, or expired no sooner
// than its last deadline and no later than the clock moves on.
func TestLeasesEndOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.IntRange(0, 1<<20), 1, 80).Draw(rt, "steps")
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex // expiries may overlap
			ends := make(map[string]int)
			deadlines := make(map[string]time.Time)
			s := newLeases(0, func(key string, _ int) {
				mu.Lock()
				defer mu.Unlock()
				ends[key]++
				if late := time.Since(deadlines[key]); late != 0 {
					t.Errorf("%s expired %v after its deadline", key, late)
				}
			})
			for i, step := range steps {
				key := fmt.Sprint(step % 7 * len(steps) / 7)
				length := time.Duration(step%13+1) * time.Second
				if step%4 == 3 {
					time.Sleep(length)
					synctest.Wait()
					continue
				}
				mu.Lock()
				switch step % 4 {
				case 0:
					key = fmt.Sprint(i)
					deadlines[key] = time.Now().Add(length)
					s.put(key, i, deadlines[key])
				case 1:
					if _, deadline, ok := s.renew(key, func(int) time.Duration { return length }); ok {
						deadlines[key] = deadline
					}
				case 2:
					if _, ok := s.take(key); ok {
						ends[key]++
					}
				}
				mu.Unlock()
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			for key := range deadlines {
				if ends[key] != 1 {
					t.Errorf("%s ended %d times", key, ends[key])
				}
			}
		})
	})
}
