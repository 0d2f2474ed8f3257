package config

import (
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warmroute/warmroute/internal/certtest"
)

// What is wrong with a port's files is said of the key that names them, with its line.
func TestTLSFiles(t *testing.T) {
	dir := t.TempDir()
	authority := certtest.New(t, "tests")
	good, other := authority.Issue("good", time.Now().Add(time.Hour)), authority.Issue("other", time.Now().Add(time.Hour))
	for name, data := range map[string][]byte{
		"ca.pem": authority.PEM, "good.pem": good.Certificate, "good.key": good.Key, "other.key": other.Key,
		"text.pem": []byte("no PEM"), "long.pem": make([]byte, maxPEM+1),
	} {
		certtest.Write(t, dir, name, data)
	}
	for _, test := range []struct{ name, keys, want string }{
		{"whole", "cert_file: DIR/good.pem, key_file: DIR/good.key", ""},
		{"clients", "cert_file: DIR/good.pem, key_file: DIR/good.key, client_ca_file: DIR/ca.pem", ""},
		{"no key", "cert_file: DIR/good.pem", "warmroute.yaml:6: tls.key_file: is missing: cert_file needs it"},
		{"no certificate", "key_file: DIR/good.key", "tls.cert_file: is missing: the port needs a certificate"},
		{"clients alone", "client_ca_file: DIR/ca.pem", "tls.cert_file: is missing: the port needs a certificate"},
		{"no file", "cert_file: DIR/none.pem, key_file: DIR/good.key", "tls.cert_file: open DIR/none.pem: no such file or directory"},
		{"no key file", "cert_file: DIR/good.pem, key_file: DIR/none.key", "tls.key_file: open DIR/none.key: no such file or directory"},
		{"another key", "cert_file: DIR/good.pem, key_file: DIR/other.key", "tls.cert_file: DIR/good.pem, with the key DIR/other.key: tls: private key does not match public key"},
		{"no PEM", "cert_file: DIR/text.pem, key_file: DIR/good.key", "tls.cert_file: DIR/text.pem, with the key DIR/good.key: tls: failed to find any PEM data in certificate input"},
		{"too long", "cert_file: DIR/long.pem, key_file: DIR/good.key", "tls.cert_file: DIR/long.pem has 4194305 bytes, at most 4194304 are read"},
		{"no CA", "cert_file: DIR/good.pem, key_file: DIR/good.key, client_ca_file: DIR/text.pem", "tls.client_ca_file: DIR/text.pem: there is no certificate in it, in PEM"},
		{"a directory", "cert_file: DIR, key_file: DIR/good.key", "tls.cert_file: read DIR: is a directory"},
	} {
		for _, port := range []string{"tls", "admin_tls"} {
			text := minimal + port + ": {" + test.keys + "}\n"
			got := strings.ReplaceAll(strings.Join(problems(t, strings.ReplaceAll(text, "DIR", dir)), "\n"), dir, "DIR")
			want := strings.Replace(test.want, "tls.", port+".", 1)
			if (got == "") != (want == "") || !strings.Contains(got, want) {
				t.Errorf("%s, %s: %q, want %q", test.name, port, got, want)
			}
		}
	}
}

// What the files hold, and until when it is valid: the first of the chain to expire counts.
func TestTLSRead(t *testing.T) {
	dir, authority := t.TempDir(), certtest.New(t, "tests")
	soon, late := time.Now().Add(time.Hour).Truncate(time.Second), time.Now().Add(48*time.Hour)
	leaf, between := authority.Issue("leaf", late), authority.Issue("between", soon)
	files := TLS{ClientCAFile: certtest.Write(t, dir, "ca.pem", authority.PEM)}
	files.CertFile, files.KeyFile = certtest.Pair{
		Certificate: append(append([]byte(nil), leaf.Certificate...), between.Certificate...), Key: leaf.Key,
	}.Write(t, dir)
	c, err := files.Read()
	if err != nil {
		t.Fatal(err)
	}
	if !c.NotAfter.Equal(soon) {
		t.Errorf("valid until %v, want %v", c.NotAfter, soon)
	}
	if c.Valid(soon) != nil || c.Valid(soon.Add(time.Second)) == nil || c.Valid(c.NotBefore.Add(-time.Second)) == nil {
		t.Errorf("valid from %v to %v, and not so", c.NotBefore, c.NotAfter)
	}
	if c.Config.ClientAuth != tls.RequireAndVerifyClientCert || !c.Config.SessionTicketsDisabled || c.Config.MinVersion != tls.VersionTLS12 {
		t.Errorf("%+v", c.Config)
	}
	if err := os.Remove(files.KeyFile); err != nil {
		t.Fatal(err)
	}
	if _, err := files.Read(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a key: %v", err)
	}
}

// A certificate that is not valid any more is warned of: it is the clients that refuse it.
func TestExpiredCertificateIsWarnedOf(t *testing.T) {
	dir := t.TempDir()
	at := time.Now().Add(-time.Minute).Truncate(time.Second)
	cert, key := certtest.New(t, "tests").Issue("expired", at).Write(t, dir)
	_, warnings := mustParse(t, minimal+"tls: {cert_file: "+cert+", key_file: "+key+"}\n")
	want := "tls.cert_file: " + filepath.Join(dir, "tls.crt") + ": the certificate expired at " + at.UTC().Format(time.RFC3339)
	if len(warnings) != 1 || !strings.Contains(warnings[0].String(), want) {
		t.Errorf("warnings %v, want %s", warnings, want)
	}
}
