package kafka

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/stream"
)

// endpoint answers like a token endpoint and records what it is asked.
type endpoint struct {
	mu     sync.Mutex
	status int
	body   string
	asked  []string // user and password, then the form
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(r.Header.Get("Authorization"), "Basic "))
	if err != nil || r.ParseForm() != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	e.asked = append(e.asked, string(raw)+" "+r.PostForm.Encode())
	w.Header().Set("Location", "/elsewhere")
	w.WriteHeader(e.status)
	if _, err := w.Write([]byte(e.body)); err != nil {
		panic(http.ErrAbortHandler)
	}
}

func serve(t *testing.T, status int, body string) (*endpoint, string) {
	t.Helper()
	e := &endpoint{status: status, body: body}
	s := httptest.NewServer(e)
	t.Cleanup(s.Close)
	return e, s.URL + "/token"
}

func TestOAuthClient(t *testing.T) {
	t.Parallel()
	e, url := serve(t, 200, `{"access_token":"jwt","expires_in":3600}`)
	m, err := OAuthClient{TokenURL: url, ClientID: "c d", ClientSecret: "s&", Scope: "kafka", Extensions: map[string]string{"cluster": "x"}}.Mechanism()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		_, first, err := m.Authenticate(t.Context(), "host:1")
		if err != nil || !strings.Contains(string(first), "Bearer jwt\x01cluster=x") {
			t.Fatalf("Authenticate: %q, %v", first, err)
		}
	}
	if len(e.asked) != 1 || e.asked[0] != "c+d:s%26 grant_type=client_credentials&scope=kafka" {
		t.Fatalf("the endpoint was asked %q, want once, encoded", e.asked)
	}
	m, err = OAuthClient{TokenURL: url, ClientID: "c d", ClientSecret: "s&", PlainHeader: true}.Mechanism()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err = m.Authenticate(t.Context(), "host:1"); err != nil || e.asked[1] != "c d:s& grant_type=client_credentials" {
		t.Fatalf("the endpoint was asked %q, %v, want the plain header", e.asked, err)
	}
}

func TestTokenCache(t *testing.T) {
	t.Parallel()
	n := 0
	fail := false
	c := &tokenCache{turn: make(chan struct{}, 1), fetch: func(context.Context) (string, time.Duration, error) {
		n++
		if fail {
			return "", 0, errors.New("no")
		}
		return strings.Repeat("t", n), 100 * time.Second, nil
	}}
	start := time.Now()
	for _, tc := range []struct {
		after time.Duration
		want  string
	}{{0, "t"}, {79 * time.Second, "t"}, {80 * time.Second, "tt"}, {159 * time.Second, "tt"}, {161 * time.Second, "ttt"}} {
		if got, err := c.get(t.Context(), start.Add(tc.after)); got != tc.want || err != nil {
			t.Fatalf("after %v: %q, %v, want %q", tc.after, got, err, tc.want)
		}
	}
	fail = true
	if _, err := c.get(t.Context(), start.Add(time.Hour)); !errors.Is(Explain(err), stream.ErrNotAuthenticated) {
		t.Fatalf("a failed fetch: %v, want ErrNotAuthenticated", Explain(err))
	}
	// Another goroutine is at it: the wait ends with the context.
	c.turn <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.get(ctx, start); !errors.Is(err, context.Canceled) {
		t.Fatalf("waiting under a canceled context: %v", err)
	}
}

func TestOAuthClientFaults(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"refused":       {401, `{"error":"invalid_client","error_description":"bad secret","access_token":"hunter2"}`, "invalid_client bad secret"},
		"not json":      {500, `hunter2`, "500"},
		"no token":      {200, `{"token":"hunter2"}`, "without an access_token"},
		"redirect":      {302, ``, "302"},
		"endless":       {200, `{"access_token":"` + strings.Repeat("hunter2", 1<<18), "without an access_token"},
		"negative life": {200, `{"access_token":"t","expires_in":-5}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, url := serve(t, tc.status, tc.body)
			m, err := OAuthClient{TokenURL: url, ClientID: "c", ClientSecret: "s"}.Mechanism()
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = m.Authenticate(t.Context(), "host:1")
			if tc.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "hunter2") {
				t.Fatalf("Authenticate: %v, want an error with %q and no secret", err, tc.want)
			}
		})
	}
	for name, o := range map[string]OAuthClient{
		"no url":          {ClientID: "c", ClientSecret: "hunter2"},
		"other scheme":    {TokenURL: "ftp://h/t", ClientID: "c", ClientSecret: "hunter2"},
		"in the clear":    {TokenURL: "http://h/t", ClientID: "c", ClientSecret: "hunter2"},
		"user in the url": {TokenURL: "https://c:hunter2@h/t", ClientID: "c", ClientSecret: "hunter2"},
		"no secret":       {TokenURL: "https://h/t", ClientID: "c"},
	} {
		if _, err := o.Mechanism(); !errors.Is(err, stream.ErrConfig) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want ErrConfig without the secret", name, err)
		}
	}
}

func TestOAuthTokenFileIsReadEachTime(t *testing.T) {
	t.Parallel()
	path := write(t, "token", " one\n")
	m := OAuthTokenFile(path)
	for _, token := range []string{"one", "two"} {
		if err := os.WriteFile(path, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, first, err := m.Authenticate(t.Context(), "h:1"); err != nil || !strings.Contains(string(first), "Bearer "+token+"\x01") {
			t.Fatalf("Authenticate: %q, %v, want the token %q", first, err, token)
		}
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.Authenticate(t.Context(), "h:1"); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Fatalf("an empty token file: %v", err)
	}
}
