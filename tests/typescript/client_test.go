package typescript

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/warmroute/warmroute/api/intake"
	"github.com/warmroute/warmroute/api/openai"
	"github.com/warmroute/warmroute/api/rpc"
	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback"
	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
	"github.com/warmroute/warmroute/router"
)

// TestTypeScriptClient routes and reports with the public client over each protocol.
func TestTypeScriptClient(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not here")
	}
	if _, err := os.Stat("node_modules"); err != nil {
		t.Skip("the client is not here: make test-typescript fetches it")
	}
	descriptors := filepath.Join(t.TempDir(), "descriptors.bin")
	if err := os.WriteFile(descriptors, describe(t), 0o600); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var reported []feedback.Usage
	url := serve(t, func(r *feedback.Record) {
		mu.Lock()
		defer mu.Unlock()
		if r.Result == feedback.Success {
			reported = append(reported, r.Usage)
		}
	})
	type result struct {
		Backend, Reason, Code string
		Accepted              bool
	}
	want := result{Backend: "gpu-1:8000", Reason: "only_backend", Code: "NotFound", Accepted: true}
	protocols := []string{"connect", "json", "grpc", "grpc-web"}
	for _, protocol := range protocols {
		cmd := exec.CommandContext(t.Context(), node, "client.mjs", protocol, url, descriptors)
		cmd.Stderr = t.Output()
		out, err := cmd.Output()
		var got result
		if err == nil {
			err = json.Unmarshal(out, &got)
		}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", protocol, err, diff)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	usage := feedback.Usage{Prompt: 14, Completion: 9, HasPrompt: true, HasCompletion: true, HasCached: true}
	if diff := cmp.Diff(slices.Repeat([]feedback.Usage{usage}, len(protocols)), reported); diff != "" {
		t.Errorf("reported (-want +got):\n%s", diff)
	}
}

// describe returns the interface as a client without generated code reads it.
func describe(t *testing.T) []byte {
	t.Helper()
	text, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{
		protodesc.ToFileDescriptorProto(durationpb.File_google_protobuf_duration_proto),
		protodesc.ToFileDescriptorProto(timestamppb.File_google_protobuf_timestamp_proto),
		protodesc.ToFileDescriptorProto(v1.File_warmroute_v1_routing_proto),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// serve runs a routing service and returns its URL.
func serve(t *testing.T, observe func(*feedback.Record)) string {
	t.Helper()
	r := router.New(router.Options{Epoch: time.Now()})
	if _, err := r.AddPool(router.PoolSpec{
		Name: "chat", Models: []router.ModelSpec{{Name: "m"}}, Config: router.DefaultConfig(), Ejection: backends.DefaultEjection(),
		Backends: []backends.Spec{{URL: "http://gpu-1:8000", Rank: backends.NoRank}},
	}); err != nil {
		t.Fatal(err)
	}
	service, err := rpc.New(rpc.Options{Router: r, Bodies: intake.NewBudget(1 << 30), Calls: openai.Calls(), Observe: observe})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(service.Close)
	mux := http.NewServeMux()
	service.Register(mux)
	server := httptest.NewUnstartedServer(mux)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}
