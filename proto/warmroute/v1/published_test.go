package warmroutev1_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	v1 "github.com/warmroute/warmroute/proto/warmroute/v1"
)

var update = flag.Bool("update", false, "write published.txt instead of comparing with it")

// published lists everything of the interface whose change would break a caller, on the
// wire or in JSON, one thing a line: make proto-breaking fails where a line is lost.
func published() string {
	var lines []string
	for _, file := range []protoreflect.FileDescriptor{v1.File_warmroute_v1_routing_proto, v1.File_warmroute_v1_admin_proto} {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				m := service.Methods().Get(j)
				lines = append(lines, fmt.Sprintf("rpc %s(%s) returns %s%s", m.FullName(), m.Input().Name(), streamed(m), m.Output().Name()))
			}
		}
		lines = append(lines, enums(file.Enums())...)
		lines = append(lines, messages(file.Messages())...)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

func streamed(m protoreflect.MethodDescriptor) string {
	if m.IsStreamingServer() {
		return "stream "
	}
	return ""
}

func enums(all protoreflect.EnumDescriptors) (lines []string) {
	for i := range all.Len() {
		values := all.Get(i).Values()
		for j := range values.Len() {
			lines = append(lines, fmt.Sprintf("enum %s %s = %d", all.Get(i).FullName(), values.Get(j).Name(), values.Get(j).Number()))
		}
	}
	return lines
}

func messages(all protoreflect.MessageDescriptors) (lines []string) {
	for i := range all.Len() {
		fields := all.Get(i).Fields()
		for j := range fields.Len() {
			f := fields.Get(j)
			kind := f.Kind().String()
			switch {
			case f.IsMap():
				kind = fmt.Sprintf("map<%s, %s>", f.MapKey().Kind(), f.MapValue().Kind())
			case f.Message() != nil:
				kind = string(f.Message().FullName())
			case f.Enum() != nil:
				kind = string(f.Enum().FullName())
			}
			if f.IsList() {
				kind = "repeated " + kind
			}
			if f.HasOptionalKeyword() {
				kind = "optional " + kind
			}
			if o := f.ContainingOneof(); o != nil && !o.IsSynthetic() {
				kind = fmt.Sprintf("oneof %s %s", o.Name(), kind)
			}
			lines = append(lines, fmt.Sprintf("field %s = %d %s json %s", f.FullName(), f.Number(), kind, f.JSONName()))
		}
		lines = append(lines, messages(all.Get(i).Messages())...)
		lines = append(lines, enums(all.Get(i).Enums())...)
	}
	return lines
}

// published.txt says what the interface is. With -update it is written.
func TestPublished(t *testing.T) {
	const file = "published.txt"
	if *update {
		if err := os.WriteFile(file, []byte(published()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	there, err := os.ReadFile(file)
	if err != nil || string(there) != published() {
		t.Errorf("published.txt is not what the interface is (%v): run make generate, and look at the lines that are lost", err)
	}
}
