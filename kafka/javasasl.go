package kafka

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/sasl"
)

const (
	mechanismKey = "sasl.mechanism"
	jaasKey      = "sasl.jaas.config"
	endpointKey  = "sasl.oauthbearer.token.endpoint.url"
)

// loginModules says which login module each mechanism has in Java.
var loginModules = map[string]string{
	MechanismPlain:       "org.apache.kafka.common.security.plain.PlainLoginModule",
	MechanismSCRAMSHA256: "org.apache.kafka.common.security.scram.ScramLoginModule",
	MechanismSCRAMSHA512: "org.apache.kafka.common.security.scram.ScramLoginModule",
	MechanismOAuth:       "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}

// sasl returns the mechanism of the sasl keys, or nil after a fault.
func (r *reader) sasl() sasl.Mechanism {
	mechanism := strings.ToUpper(r.or(mechanismKey, "GSSAPI"))
	module, known := loginModules[mechanism]
	switch {
	case mechanism == "GSSAPI":
		r.fail(mechanismKey, "GSSAPI (Kerberos), which is Java's default, is not supported: set PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER")
		return nil
	case !known:
		r.fail(mechanismKey, "%q is not one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER; a program can set any mechanism of franz-go "+
			"in Config.SASL, AWS_MSK_IAM among them", mechanism)
		return nil
	}
	login := jaas{module: module, options: map[string]string{}}
	if r.has(jaasKey) || mechanism != MechanismOAuth {
		var err error
		if login, err = parseJAAS(r.get(jaasKey)); err != nil {
			r.fail(jaasKey, "%v", err)
			return nil
		}
	}
	// Vendors bundle the modules under names of their own that end alike.
	if !strings.HasSuffix(login.module, module[strings.LastIndexByte(module, '.')+1:]) {
		r.fail(jaasKey, "the login module for %s is %s", mechanism, module)
		return nil
	}
	if mechanism == MechanismOAuth {
		return r.oauth(login.options)
	}
	token := strings.EqualFold(login.options["tokenauth"], "true")
	r.onlyOptions(login.options, "username", "password", "tokenauth")
	m, err := passwordMechanism(mechanism, login.options["username"], login.options["password"], token)
	if err != nil {
		r.fail(jaasKey, "it has no username or no password")
		return nil
	}
	return m
}

// onlyOptions reports options of the login module that nobody reads, by name.
func (r *reader) onlyOptions(options map[string]string, known ...string) {
	for _, name := range slices.Sorted(maps.Keys(options)) {
		if !slices.Contains(known, name) {
			r.fail(jaasKey, "the option %q is not supported", name)
		}
	}
}

// onlyClass reports a class of Java that would do something else than this package does.
func (r *reader) onlyClass(key string, known ...string) {
	class := r.get(key)
	if class != "" && !slices.Contains(known, class[strings.LastIndexByte(class, '.')+1:]) {
		r.fail(key, "the class %s is not supported", class)
	}
}

// oauth returns the mechanism OAUTHBEARER.
func (r *reader) oauth(options map[string]string) sasl.Mechanism {
	endpoint := r.get(endpointKey)
	first := func(key, option string) string {
		if v := r.get(key); v != "" {
			return v
		}
		return options[option]
	}
	client := OAuthClient{
		TokenURL:     endpoint,
		ClientID:     first("sasl.oauthbearer.client.credentials.client.id", "clientId"),
		ClientSecret: first("sasl.oauthbearer.client.credentials.client.secret", "clientSecret"),
		Scope:        first("sasl.oauthbearer.scope", "scope"),
		PlainHeader:  !strings.EqualFold(r.get("sasl.oauthbearer.header.urlencode"), "true"),
		Extensions:   map[string]string{},
	}
	plain := map[string]string{}
	for name, value := range options {
		if ext, ok := strings.CutPrefix(name, "extension_"); ok {
			client.Extensions[ext] = value
		} else {
			plain[name] = value
		}
	}
	r.onlyOptions(plain, "clientId", "clientSecret", "scope", "token")
	r.onlyClass("sasl.login.callback.handler.class", "OAuthBearerLoginCallbackHandler")
	r.onlyClass("sasl.oauthbearer.jwt.retriever.class", "DefaultJwtRetriever", "ClientCredentialsJwtRetriever", "FileJwtRetriever")
	if endpoint == "" {
		if options["token"] != "" {
			return OAuthToken(options["token"])
		}
		r.fail(endpointKey, "OAUTHBEARER needs a token endpoint, a token file (file:///path), or token=\"...\" in %s", jaasKey)
		return nil
	}
	if u, err := url.Parse(endpoint); err == nil && u.Scheme == "file" {
		if _, err := readToken(u.Path); err != nil {
			r.fail(endpointKey, "%v", err)
		} else if _, open, err := readFile(u.Path); err == nil && open {
			r.exposed = append(r.exposed, exposed(u.Path))
		}
		return OAuthTokenFile(u.Path)
	}
	m, err := client.Mechanism()
	if err != nil {
		r.fail(endpointKey, "%v", err)
		return nil
	}
	return m
}
