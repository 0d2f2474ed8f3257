package deploy

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmroute/warmroute/internal/config"
)

// unit reads a unit of systemd: what each section sets, in order.
func unit(t *testing.T, text string) map[string][][2]string {
	t.Helper()
	sections, section := make(map[string][][2]string), ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]"):
			section = strings.Trim(line, "[]")
		default:
			key, value, found := strings.Cut(line, "=")
			if !found || section == "" {
				t.Errorf("not a setting: %q", line)
			}
			sections[section] = append(sections[section], [2]string{key, value})
		}
	}
	return sections
}

// TestUnit: the program runs by the command of the unit, is what Type says, and its settings
// fit those of the configuration.
func TestUnit(t *testing.T) {
	text := string(read(t, "systemd", "warmroute.service"))
	sections := unit(t, text)
	set := make(map[string]string)
	for _, s := range sections["Service"] {
		if _, twice := set[s[0]]; twice && s[0] != "SystemCallFilter" {
			t.Errorf("%s is there twice", s[0])
		}
		set[s[0]] = s[1]
	}
	for key, want := range map[string]string{
		"Type": "notify-reload", "DynamicUser": "yes", "NoNewPrivileges": "yes", "ProtectSystem": "strict", "CapabilityBoundingSet": "",
	} {
		if got, there := set[key]; !there || got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if len(sections["Install"]) == 0 || len(sections["Unit"]) == 0 {
		t.Error("sections are missing")
	}
	stop, err := strconv.Atoi(set["TimeoutStopSec"])
	if err != nil {
		t.Error(err)
	}
	outlives(t, "the service", (time.Duration(stop) * time.Second).String(), config.Default())
	watchdog, err := strconv.Atoi(set["WatchdogSec"])
	if err != nil || watchdog < 10 {
		t.Errorf("the watchdog has %d s, %v: a busy machine is no reason to be killed", watchdog, err)
	}
	files, err := strconv.Atoi(set["LimitNOFILE"])
	if err != nil || files < 8192 {
		t.Errorf("%d files, %v", files, err)
	}

	// The command, with a file that is there.
	args := strings.Fields(set["ExecStart"])
	if filepath.Base(args[0]) != "warmroute" || !filepath.IsAbs(args[0]) {
		t.Fatalf("runs %s", args[0])
	}
	args = args[1:]
	understands(t, args)
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"object":"list","data":[{"id":"m","object":"model"}]}`))
	}))
	defer engine.Close()
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml")
	for file, text := range map[string]string{
		good: "version: 1\npools: [{name: default, backends: [{url: " + engine.URL + "}]}]\n", bad: "version: 2\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const at = "/etc/warmroute/warmroute.yaml"
	if !strings.Contains(set["ExecStart"], at) || set["ConfigurationDirectory"] != "warmroute" {
		t.Errorf("reads %s from %s", set["ExecStart"], set["ConfigurationDirectory"])
	}
	with := func(file string) []string {
		return strings.Fields(strings.ReplaceAll(strings.Join(args, " "), at, file))
	}
	if code, out := execute(t, nil, with(bad)...); strconv.Itoa(code) != set["RestartPreventExitStatus"] {
		t.Errorf("a wrong configuration ends with %d, %s; systemd starts it again but for %s", code, out, set["RestartPreventExitStatus"])
	}
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	r := launch(t, []string{"NOTIFY_SOCKET=" + socket.LocalAddr().String()}, with(good)...)
	if err := socket.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 1024)
	if n, err := socket.Read(said); err != nil || !strings.HasPrefix(string(said[:n]), "READY=1\n") {
		t.Errorf("systemd is told %q, %v", said[:n], err)
	}
	if code := r.terminate(); code != 0 {
		t.Errorf("exit code %d: %s", code, r.stderr)
	}
}

// TestUnitIsUnderstood: systemd itself, where it is there, knows every setting.
func TestUnitIsUnderstood(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not there")
	}
	// Older ones do not know notify-reload, and the program is not where it will be.
	text := strings.NewReplacer("notify-reload", "notify", "/usr/local/bin/warmroute", program(t)).Replace(string(read(t, "systemd", "warmroute.service")))
	file := filepath.Join(t.TempDir(), "warmroute.service")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), analyze, "verify", "--recursive-errors=no", file).CombinedOutput()
	if err != nil || strings.Contains(string(out), "warmroute.service") {
		t.Errorf("%v: %s", err, out)
	}
}
