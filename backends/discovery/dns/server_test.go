package dns

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// mood is how a server treats a name.
type mood int

const (
	answers  mood = iota
	fails         // SERVFAIL
	refuses       // REFUSED
	unknown       // NXDOMAIN
	silent        // nothing
	nonsense      // bytes that are no message
)

// server is a small DNS server on loopback, over UDP and TCP. What does not fit into a UDP
// message is asked for again over TCP, as in life.
type server struct {
	addr string

	mu      sync.Mutex
	records map[string][]dnsmessage.ResourceBody // by name
	moods   map[string]mood
	asked   map[string]int // by protocol
}

// newServer starts a server that ends with the test.
func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{records: make(map[string][]dnsmessage.ResourceBody), moods: make(map[string]mood), asked: make(map[string]int)}
	packets, stream := listen(t)
	s.addr = packets.LocalAddr().String()
	var running sync.WaitGroup
	running.Go(func() { s.servePackets(packets) })
	running.Go(func() {
		for {
			conn, err := stream.Accept()
			if err != nil {
				return
			}
			running.Go(func() { s.serveStream(conn) })
		}
	})
	t.Cleanup(func() {
		packets.Close()
		stream.Close()
		running.Wait()
	})
	return s
}

// listen takes a port that is free for UDP and for TCP.
func listen(t *testing.T) (net.PacketConn, net.Listener) {
	t.Helper()
	var err error
	for range 100 {
		var stream net.Listener
		if stream, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			continue
		}
		var packets net.PacketConn
		if packets, err = net.ListenPacket("udp", stream.Addr().String()); err == nil {
			return packets, stream
		}
		stream.Close()
	}
	t.Fatal(err)
	return nil, nil
}

func (s *server) servePackets(conn net.PacketConn) {
	buf := make([]byte, 64<<10)
	for {
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		if answer := s.answer(buf[:n], "udp"); answer != nil {
			conn.WriteTo(answer, from)
		}
	}
}

func (s *server) serveStream(conn net.Conn) {
	defer conn.Close()
	for {
		var length [2]byte
		if _, err := io.ReadFull(conn, length[:]); err != nil {
			return
		}
		question := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(conn, question); err != nil {
			return
		}
		answer := s.answer(question, "tcp")
		if answer == nil {
			return
		}
		conn.Write(binary.BigEndian.AppendUint16(nil, uint16(len(answer))))
		conn.Write(answer)
	}
}

// maxPacket is what the server sends over UDP, in bytes.
const maxPacket = 1200

// answer returns the answer to a message, nil when there is none.
func (s *server) answer(message []byte, protocol string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[protocol]++
	var parser dnsmessage.Parser
	header, err := parser.Start(message)
	if err != nil {
		return nil
	}
	question, err := parser.Question()
	if err != nil {
		return nil
	}
	name := question.Name.String()
	reply := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: header.ID, Response: true, RecursionDesired: true, RecursionAvailable: true},
		Questions: []dnsmessage.Question{question},
	}
	known, exists := s.records[name]
	switch s.moods[name] {
	case silent:
		return nil
	case nonsense:
		return []byte{message[0], message[1], 0xff}
	case fails:
		reply.RCode = dnsmessage.RCodeServerFailure
	case refuses:
		reply.RCode = dnsmessage.RCodeRefused
	case unknown:
		reply.RCode = dnsmessage.RCodeNameError
	case answers:
		if !exists {
			reply.RCode = dnsmessage.RCodeNameError
		}
		for _, body := range known {
			one := dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET, TTL: 86400}, Body: body}
			if typeOf(body) == question.Type {
				one.Header.Type = question.Type
				reply.Answers = append(reply.Answers, one)
			}
		}
	}
	packed, err := reply.Pack()
	if err != nil {
		return nil
	}
	if protocol == "udp" && len(packed) > maxPacket {
		reply.Truncated, reply.Answers = true, nil
		packed, _ = reply.Pack()
	}
	return packed
}

func typeOf(body dnsmessage.ResourceBody) dnsmessage.Type {
	switch body.(type) {
	case *dnsmessage.AResource:
		return dnsmessage.TypeA
	case *dnsmessage.AAAAResource:
		return dnsmessage.TypeAAAA
	case *dnsmessage.SRVResource:
		return dnsmessage.TypeSRV
	}
	return 0
}

// set makes a name have these records.
func (s *server) set(name string, records ...dnsmessage.ResourceBody) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records[name], s.moods[name] = records, answers
}

// mood changes how a name is treated.
func (s *server) mood(name string, m mood) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moods[name] = m
}

func (s *server) questions(protocol string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[protocol]
}

// address is an A or AAAA record.
func address(text string) dnsmessage.ResourceBody {
	a := netip.MustParseAddr(text)
	if a.Is4() {
		return &dnsmessage.AResource{A: a.As4()}
	}
	return &dnsmessage.AAAAResource{AAAA: a.As16()}
}

func srv(priority, weight int, target string, port int) dnsmessage.ResourceBody {
	return &dnsmessage.SRVResource{
		Priority: uint16(priority), Weight: uint16(weight), Port: uint16(port), Target: dnsmessage.MustNewName(target),
	}
}
