package dns

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/backends/discovery"
)

// Source looks a name up.
type Source struct {
	config   Config
	resolver *net.Resolver
	good     map[service]netip.AddrPort // by service, its last known address
}

// service is what an SRV record names.
type service struct {
	target string
	port   uint16
}

var _ discovery.Source = (*Source)(nil)

// New returns a source. Times of 0 are taken as the defaults.
func New(c Config) (*Source, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	// Strict, because an answer of which a part failed is not whole. In Go, because then
	// every platform does the same.
	resolver := &net.Resolver{PreferGo: true, StrictErrors: true, Dial: dialer(c.Resolver)}
	return &Source{config: c.withDefaults(), resolver: resolver}, nil
}

// dialer returns what connects to a server, or to the machine's where it is "". The
// resolver leaves questions under way alone when nobody waits for their answers any more;
// closing the connection ends them.
func dialer(server string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, cmp.Or(server, address))
		if err == nil {
			context.AfterFunc(ctx, func() { conn.Close() })
		}
		return conn, err
	}
}

// Run implements [discovery.Source].
func (s *Source) Run(ctx context.Context, tell discovery.Tell) {
	for {
		list, err := s.look(ctx)
		if ctx.Err() != nil {
			return
		}
		tell(list, err)
		wait := time.NewTimer(pause(s.config.Interval))
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-wait.C:
		}
	}
}

// pause is an interval give or take a tenth, so that routers do not ask in step.
func pause(interval time.Duration) time.Duration {
	return time.Duration(float64(interval) * (0.9 + 0.2*rand.Float64())) //nolint:gosec // no secret
}

// look looks the name up once.
func (s *Source) look(ctx context.Context) ([]backends.Spec, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	find := s.addresses
	if s.config.Type == SRV {
		find = s.services
	}
	addresses, err := find(ctx)
	if addresses == nil && err != nil {
		return nil, err
	}
	slices.SortFunc(addresses, netip.AddrPort.Compare)
	specs := []backends.Spec{}
	for _, a := range slices.Compact(addresses) {
		specs = append(specs, s.config.Form.At(s.config.Form.URL(a.String()))...)
	}
	return specs, err
}

// addresses looks up the addresses of the name.
func (s *Source) addresses(ctx context.Context) ([]netip.AddrPort, error) {
	network := "ip4"
	if s.config.Type == AAAA {
		network = "ip6"
	}
	found, err := s.ask(ctx, network, s.config.Name)
	if err != nil {
		return nil, err
	}
	all := []netip.AddrPort{}
	for _, a := range found {
		all = append(all, netip.AddrPortFrom(a, uint16(s.config.Port))) //nolint:gosec // it was checked
	}
	return all, nil
}

// ask looks up addresses. That there are none is an answer.
func (s *Source) ask(ctx context.Context, network, name string) ([]netip.Addr, error) {
	found, err := s.resolver.LookupNetIP(ctx, network, name)
	if notFound(err) {
		return nil, nil
	}
	for i := range found {
		found[i] = found[i].Unmap()
	}
	return found, err
}

// notFound reports whether a server has said that there is nothing. A lookup without an
// answer is no such word.
func notFound(err error) bool {
	e, ok := errors.AsType[*net.DNSError](err)
	return ok && e.IsNotFound && !e.IsTimeout && !e.IsTemporary
}

// services looks up the services that the name lists, and the address of each.
func (s *Source) services(ctx context.Context) ([]netip.AddrPort, error) {
	_, records, err := s.resolver.LookupSRV(ctx, "", "", s.config.Name)
	if err != nil && !notFound(err) {
		return nil, err
	}
	var wanted []service
	for _, r := range records {
		if r.Priority == records[0].Priority && r.Target != "." { // the lowest comes first
			wanted = append(wanted, service{r.Target, r.Port})
		}
	}
	found, err := s.locate(ctx, wanted)
	if err != nil && len(found) == 0 {
		return nil, err
	}
	s.good = found
	all := []netip.AddrPort{}
	for _, a := range found {
		all = append(all, a)
	}
	return all, err
}

// atOnce bounds the questions under way.
const atOnce = 8

// locate looks up the addresses of services. One whose address cannot be found out keeps
// its last one.
func (s *Source) locate(ctx context.Context, wanted []service) (map[service]netip.AddrPort, error) {
	var (
		mu      sync.Mutex
		found   = make(map[service]netip.AddrPort)
		errs    []error
		running sync.WaitGroup
		slot    = make(chan struct{}, atOnce)
	)
	for _, one := range wanted {
		slot <- struct{}{}
		running.Go(func() {
			defer func() { <-slot }()
			address, err := s.addressOf(ctx, one)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
				address = s.good[one]
			}
			if address.IsValid() {
				found[one] = address
			}
		})
	}
	running.Wait()
	return found, errors.Join(errs...)
}

// addressOf looks up the address of a service; it is not valid where there is none.
func (s *Source) addressOf(ctx context.Context, one service) (netip.AddrPort, error) {
	for _, network := range []string{"ip4", "ip6"} {
		found, err := s.ask(ctx, network, one.target)
		if err != nil {
			return netip.AddrPort{}, err
		}
		if len(found) > 0 {
			return netip.AddrPortFrom(slices.MinFunc(found, netip.Addr.Compare), one.port), nil
		}
	}
	return netip.AddrPort{}, nil
}
