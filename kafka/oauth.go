package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
)

// maxTokenResponse bounds what is read of a token endpoint's answer and of a token file.
const maxTokenResponse = 1 << 20

// OAuthClient gets tokens from an OAuth 2 token endpoint by the client credentials grant.
//
// It is printed, logged and encoded without its secret, also within other values. The one way around that is a field of a
// struct that is not exported: fmt calls no method of what is in it, and a type that has one needs a String method.
type OAuthClient struct {
	TokenURL     string // https, or http on the loopback
	ClientID     string
	ClientSecret string
	Scope        string            // optional
	Extensions   map[string]string // sent with the token, optional
	// PlainHeader puts client id and secret into the header as they are, as Java's client does unless
	// it is told otherwise. Without it both are encoded as RFC 6749, 2.3.1 says; it matters for
	// secrets that have characters other than letters, digits, '-', '_', '.' and '~'.
	PlainHeader bool
	HTTP        *http.Client // nil: one with a timeout of 30 s that follows no redirect
}

// String leaves the secret out.
func (o OAuthClient) String() string {
	return fmt.Sprintf("OAuthClient{%s at %s}", o.ClientID, o.TokenURL)
}

// GoString leaves the secret out.
func (o OAuthClient) GoString() string { return o.String() }

// LogValue leaves the secret out.
func (o OAuthClient) LogValue() slog.Value { return slog.StringValue(o.String()) }

// MarshalText leaves the secret out, in JSON as well: what is printed so cannot be read back.
func (o OAuthClient) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// Mechanism returns the SASL mechanism OAUTHBEARER. It asks for a token when a connection needs one,
// and keeps it until four fifths of its life are over. It returns stream.ErrConfig for a URL that
// would send the secret in the clear, and for missing credentials.
func (o OAuthClient) Mechanism() (sasl.Mechanism, error) {
	u, err := url.Parse(o.TokenURL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, fault("the token endpoint is not a URL", "give https://host/path")
	case u.User != nil:
		return nil, fault("the URL of the token endpoint holds a user", "give client id and secret apart from the URL")
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return nil, fault("the token endpoint "+u.Redacted()+" would be sent the client secret in the clear", "use https")
	case o.ClientID == "" || o.ClientSecret == "":
		return nil, fault("OAUTHBEARER lacks a client id or a client secret", "give both")
	}
	if o.HTTP == nil {
		o.HTTP = &http.Client{Timeout: 30 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error {
			// The credentials are for this endpoint and for no other.
			return http.ErrUseLastResponse
		}}
	}
	s := &tokenCache{fetch: o.fetch, turn: make(chan struct{}, 1)}
	return oauth.Oauth(func(ctx context.Context) (oauth.Auth, error) {
		token, err := s.get(ctx, time.Now())
		return oauth.Auth{Token: token, Extensions: o.Extensions}, err
	}), nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// OAuthToken returns the mechanism OAUTHBEARER with a token that does not change.
func OAuthToken(token string) sasl.Mechanism { return oauth.Auth{Token: token}.AsMechanism() }

// OAuthTokenFile returns the mechanism OAUTHBEARER with the token in a file. The file is read for
// each connection, so that whoever renews the token only has to replace the file.
func OAuthTokenFile(path string) sasl.Mechanism {
	return oauth.Oauth(func(context.Context) (oauth.Auth, error) {
		token, err := readToken(path)
		if err != nil {
			return oauth.Auth{}, &tokenError{err: err}
		}
		return oauth.Auth{Token: token}, nil
	})
}

func readToken(path string) (token string, err error) {
	text, _, err := readFile(path)
	if err != nil {
		return "", err
	}
	if token = strings.TrimSpace(string(text)); token == "" {
		return "", fmt.Errorf("token file %s is empty", path)
	}
	return token, nil
}

// tokenError is the failure to get a token. It never holds one.
type tokenError struct{ err error }

func (e *tokenError) Error() string { return "get OAuth token: " + e.err.Error() }
func (e *tokenError) Unwrap() error { return e.err }

// tokenCache keeps one token. turn holds one token while a goroutine fetches, so that the others
// wait for it, each as long as its own context lets it, and no lock is held over the request.
type tokenCache struct {
	fetch func(context.Context) (token string, life time.Duration, err error)
	turn  chan struct{}
	token string
	until time.Time
}

func (c *tokenCache) get(ctx context.Context, now time.Time) (string, error) {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return "", &tokenError{err: ctx.Err()}
	}
	defer func() { <-c.turn }()
	if c.token != "" && now.Before(c.until) {
		return c.token, nil
	}
	token, life, err := c.fetch(ctx)
	if err != nil {
		return "", &tokenError{err: err}
	}
	c.token, c.until = token, now.Add(life*4/5)
	return token, nil
}

// fetch asks the endpoint for a token (RFC 6749, 4.4).
func (o OAuthClient) fetch(ctx context.Context) (token string, life time.Duration, err error) {
	form := url.Values{"grant_type": {"client_credentials"}}
	if o.Scope != "" {
		form.Set("scope", o.Scope)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.TokenURL, strings.NewReader(form.Encode()))
	if err != nil {
		return "", 0, err
	}
	if o.PlainHeader {
		req.SetBasicAuth(o.ClientID, o.ClientSecret)
	} else {
		req.SetBasicAuth(url.QueryEscape(o.ClientID), url.QueryEscape(o.ClientSecret))
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	resp, err := o.HTTP.Do(req)
	if err != nil {
		return "", 0, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxTokenResponse))
	if err != nil {
		return "", 0, err
	}
	if resp.StatusCode != http.StatusOK {
		return "", 0, fmt.Errorf("%s answered %s%s", o.TokenURL, resp.Status, refusal(body))
	}
	var answer struct {
		Token string  `json:"access_token"`
		Life  float64 `json:"expires_in"` // seconds
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Token == "" {
		return "", 0, fmt.Errorf("%s answered without an access_token", o.TokenURL)
	}
	// An endpoint that does not say how long the token lives is asked each time.
	return answer.Token, time.Duration(min(max(answer.Life, 0), 86400) * float64(time.Second)), nil
}

// refusal returns the reason that RFC 6749, 5.2 puts into the answer, and nothing else of it.
func refusal(body []byte) string {
	var answer struct {
		Code string `json:"error"`
		Text string `json:"error_description"`
	}
	if json.Unmarshal(body, &answer) != nil || answer.Code == "" {
		return ""
	}
	return fmt.Sprintf(": %.60s %.200s", answer.Code, answer.Text)
}
