package redisindex

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/warmroute/warmroute/kvindex"
	"github.com/warmroute/warmroute/kvindex/indextest"
	"github.com/warmroute/warmroute/router"
	"pgregory.net/rapid"
)

var allFields = cmp.AllowUnexported(message{}, chain{}, end{}, pin{}, horizon{}, report{}, load{})

// pack encodes what a message can say.
func pack(m *message) [][]byte {
	e := newEncoder(m.replica, new(m.number-1))
	for _, h := range m.horizons {
		e.addHorizon(h)
	}
	for _, c := range m.chains {
		e.addChain(c)
	}
	for _, x := range m.ends {
		e.addEnd(x)
	}
	for _, p := range m.pins {
		e.addPin(p)
	}
	if m.report != nil {
		e.addReport(*m.report)
	}
	return e.messages()
}

// unpack decodes messages and puts them together, under the number of the first.
func unpack(t interface{ Fatalf(string, ...any) }, all [][]byte) *message {
	whole, last := new(message), uint64(0)
	for i, data := range all {
		if len(data) > maxMessage {
			t.Fatalf("a message of %d bytes", len(data))
		}
		m, err := decode(data)
		if err != nil {
			t.Fatalf("decode: %v", err)
		}
		if i == 0 {
			whole.replica, whole.number = m.replica, m.number
		} else if m.number != last+1 {
			t.Fatalf("message %d comes after %d", m.number, last)
		}
		last = m.number
		whole.chains = append(whole.chains, m.chains...)
		whole.ends = append(whole.ends, m.ends...)
		whole.pins = append(whole.pins, m.pins...)
		whole.horizons = append(whole.horizons, m.horizons...)
		if m.report != nil {
			whole.report = m.report
		}
	}
	return whole
}

func TestMessagesComeBackAsTheyWere(t *testing.T) {
	chains := make([][]kvindex.Key, 0, 12)
	for family := range 3 {
		for member := range 4 {
			chains = append(chains, indextest.Chain(fmt.Sprint(family), fmt.Sprint(member), 10, 10+100*member))
		}
	}
	at := rapid.Int64Range(0, int64(maxMoment))
	label := rapid.SampledFrom([]string{"b1:80", "b2:80", "[::1]:8000/v1#3"})
	rapid.Check(t, func(t *rapid.T) {
		m := &message{replica: rapid.Uint64().Draw(t, "replica"), number: rapid.Uint64Range(1, math.MaxInt64).Draw(t, "number")}
		for range rapid.IntRange(0, 40).Draw(t, "chains") {
			keys := rapid.SampledFrom(chains).Draw(t, "chain")
			m.chains = append(m.chains, chain{
				backend: label.Draw(t, "backend"), last: moment(at.Draw(t, "last")),
				keys:    keys[:rapid.IntRange(1, len(keys)).Draw(t, "length")],
				promise: kvindex.Promise(rapid.SampledFrom([]int{0, 0, 1, 500, math.MaxInt64}).Draw(t, "promise")),
			})
		}
		for range rapid.IntRange(0, 40).Draw(t, "ends") {
			m.ends = append(m.ends, end{
				promise: kvindex.Promise(rapid.IntRange(1, math.MaxInt64).Draw(t, "promise")), kept: rapid.Bool().Draw(t, "kept"),
			})
		}
		for range rapid.IntRange(0, 5).Draw(t, "pins") {
			m.pins = append(m.pins, pin{
				key:     router.PinKey(rapid.Uint64Min(1).Draw(t, "pin")),
				backend: rapid.SampledFrom([]string{"", "b1:80"}).Draw(t, "where"), at: moment(at.Draw(t, "at")),
			})
		}
		for range rapid.IntRange(0, 5).Draw(t, "horizons") {
			m.horizons = append(m.horizons, horizon{backend: label.Draw(t, "backend"), at: moment(at.Draw(t, "at"))})
		}
		if rapid.Bool().Draw(t, "report") {
			m.report = &report{at: moment(at.Draw(t, "at")), whole: rapid.Bool().Draw(t, "whole")}
			for range rapid.IntRange(0, 5).Draw(t, "loads") {
				m.report.loads = append(m.report.loads, load{
					backend: label.Draw(t, "backend"), inFlight: rapid.IntRange(0, maxInFlight).Draw(t, "in-flight"),
					tokens: rapid.Int64Range(0, maxTokens).Draw(t, "tokens"), began: moment(at.Draw(t, "began")),
					progress: moment(at.Draw(t, "progress")), rate: rapid.Float64Range(0, maxRate).Draw(t, "rate"),
				})
			}
		}
		all := pack(m)
		got := unpack(t, all)
		if len(all) == 0 {
			m.replica, m.number = 0, 0 // nothing to tell, nothing told
		} else {
			m.number += uint64(len(all) - 1) // of the last
		}
		if diff := cmp.Diff(m, got, allFields); diff != "" {
			t.Fatalf("(-sent +received):\n%s", diff)
		}
	})
}

func TestMessagesAreBounded(t *testing.T) {
	long := indextest.Chain("long", "", 0, maxPublished)
	m := &message{replica: 7}
	for i := range 20 {
		m.chains = append(m.chains, chain{backend: strings.Repeat("b", maxLabel), last: moment(i), keys: indextest.Chain("x", fmt.Sprint(i), 0, maxPublished)})
		m.chains = append(m.chains, chain{backend: "b", last: moment(i), keys: long})
	}
	for i := range 3 * maxMessageChains {
		m.chains = append(m.chains, chain{backend: "c", last: moment(i), keys: long[:i%7+1]})
	}
	m.report = &report{at: 5}
	for i := range 3000 {
		m.report.loads = append(m.report.loads, load{backend: fmt.Sprintf("backend-%04d", i), inFlight: 1, rate: 1})
	}
	all := pack(m)
	got := unpack(t, all)
	if diff := cmp.Diff(m.chains, got.chains, allFields); diff != "" {
		t.Errorf("chains differ (-sent +received):\n%.2000s", diff)
	}
	if n := len(got.report.loads); n == 0 || n == 3000 {
		t.Errorf("%d loads in a report that does not fit", n)
	}
	// Numbers out of range are brought into it.
	m = &message{report: &report{at: -1, loads: []load{{backend: "b", inFlight: -3, tokens: -1, began: -1, rate: math.Inf(1)}}}}
	want := &message{report: &report{loads: []load{{backend: "b", rate: maxRate}}}}
	if diff := cmp.Diff(want, unpack(t, pack(m)), allFields); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestChainsShareWhatTheyHaveInCommon(t *testing.T) {
	m := new(message)
	for i := range 10 {
		m.chains = append(m.chains, chain{backend: "b1:80", keys: indextest.Chain("f", fmt.Sprint(i), 100, 102)})
	}
	if all := pack(m); len(all) != 1 || len(all[0]) > 8*(100+10*2)+300 {
		t.Errorf("10 chains with 100 keys in common and 2 of their own take %d messages, the first of %d bytes", len(all), len(all[0]))
	}
}

// raw builds messages by hand.
func raw(sections ...any) []byte {
	data := binary.LittleEndian.AppendUint64([]byte{messageVersion}, 1)
	for _, s := range sections {
		switch s := s.(type) {
		case rune:
			data = append(data, byte(s))
		case string:
			data = append(binary.AppendUvarint(data, uint64(len(s))), s...)
		case int:
			data = binary.AppendUvarint(data, uint64(s))
		case []byte:
			data = append(data, s...)
		}
	}
	return data
}

func TestMalformedMessages(t *testing.T) {
	key := make([]byte, 8)
	nan := binary.LittleEndian.AppendUint64(nil, math.Float64bits(math.NaN()))
	amplified := []any{sectionChain, "b", 1, 0, 8000, make([]byte, 64_000)}
	for range 100 {
		amplified = append(amplified, sectionChain, "", 1, 8000, 0)
	}
	for name, data := range map[string][]byte{
		"nothing":                nil,
		"another version":        {9, 0, 0, 0, 0, 0, 0, 0, 0},
		"no replica":             {messageVersion, 1, 2},
		"too long":               make([]byte, maxMessage+1),
		"unknown section":        raw('x'),
		"chain of nothing":       raw(sectionChain, "b", 1, 0, 0),
		"chain of nobody":        raw(sectionChain, "", 1, 0, 1, key),
		"more shared than there": raw(sectionChain, "b", 1, 1, 0),
		"fewer keys than said":   raw(sectionChain, "b", 1, 0, 2, key),
		"length beyond all":      raw(sectionChain, "b", 1, 0, math.MaxInt),
		"endless number":         raw(sectionHorizon, "b", []byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}),
		"moment beyond scores":   raw(sectionHorizon, "b", int(maxMoment)+1),
		"name too long":          raw(sectionHorizon, strings.Repeat("b", maxLabel+1), 1),
		"name cut off":           raw(sectionHorizon, 9, []byte("b")),
		"promise of no number":   raw(sectionPromise, 0, "b", 1, 0, 1, key),
		"end of no promise":      raw(sectionKept, 0),
		"pin of nothing":         raw(sectionPin, make([]byte, 8), "b", 1),
		"rate is no number":      raw(sectionReport, 1, 1, "b", 0, 0, 0, 0, nan),
		"fewer loads than said":  raw(sectionReport, 1, 60_000, "b", 0, 0, 0, 0, key),
		"more keys than allowed": raw(amplified...),
	} {
		if m, err := decode(data); err == nil {
			t.Errorf("%s: taken for %+v", name, m)
		}
	}
}

func FuzzDecode(f *testing.F) {
	keys := indextest.Chain("f", "", 0, 4)
	f.Add(raw())
	for _, m := range pack(&message{
		replica:  1,
		chains:   []chain{{"b1:80", 1000, keys, 0}, {"b1:80", 1001, keys[:2], 9}, {"b2:80", 1, keys, 0}},
		ends:     []end{{9, true}, {8, false}},
		horizons: []horizon{{"b1:80", 99}},
		pins:     []pin{{7, "b1:80", 5}, {8, "", 6}},
		report:   &report{at: 5, whole: true, loads: []load{{"b1:80", 3, 4000, 1, 0, 2000}}},
	}) {
		f.Add(m)
		f.Add(m[:len(m)-1])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := decode(data)
		if err != nil {
			return
		}
		total := 0
		for _, c := range m.chains {
			total += len(c.keys)
		}
		if total > maxMessageKeys || len(m.chains) > maxMessageChains {
			t.Fatalf("%d bytes became %d chains of %d keys", len(data), len(m.chains), total)
		}
		again := unpack(t, pack(m))
		if len(m.chains)+len(m.horizons)+len(m.ends)+len(m.pins) == 0 && m.report == nil {
			again.replica, again.number = m.replica, m.number // nothing was told, and nothing written
		}
		if diff := cmp.Diff(m, again, allFields); diff != "" {
			t.Fatalf("what was read cannot be written (-read +written):\n%s", diff)
		}
	})
}
