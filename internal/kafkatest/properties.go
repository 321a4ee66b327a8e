package kafkatest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// jvmFlags keep a test broker small: it is the number of JVMs on a machine, not their throughput, that
// limits how many test packages run.
var jvmFlags = []string{"-Xmx256m", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}

// clusterID is any 22 characters; it only has to be the same for all brokers of a cluster.
const clusterID = "MkU3OEVBNTcwNTJENDM2Qk"

// properties returns server.properties for a broker with ports for plaintext, controller, SASL_SSL
// and SSL.
func (c *Cluster) properties(b *Broker, ports []int, voters string) string {
	replicas, inSync := 1, 1
	if c.opts.Brokers == 3 {
		replicas, inSync = 3, 2
	}
	p := map[string]string{
		"process.roles":                  "broker,controller",
		"node.id":                        fmt.Sprint(b.ID),
		"controller.quorum.voters":       voters,
		"controller.listener.names":      "CONTROLLER",
		"inter.broker.listener.name":     "PLAINTEXT",
		"listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL",
		"log.dirs":                       b.data(),

		"offsets.topic.replication.factor":                 fmt.Sprint(replicas),
		"transaction.state.log.replication.factor":         fmt.Sprint(replicas),
		"transaction.state.log.min.isr":                    fmt.Sprint(inSync),
		"share.coordinator.state.topic.replication.factor": fmt.Sprint(replicas),
		"share.coordinator.state.topic.min.isr":            fmt.Sprint(inSync),
		"default.replication.factor":                       fmt.Sprint(replicas),
		"min.insync.replicas":                              fmt.Sprint(inSync),
		"auto.create.topics.enable":                        "false",

		// Few partitions of the internal topics: with the stock 50 the first group takes seconds to join.
		"offsets.topic.num.partitions":         "4",
		"transaction.state.log.num.partitions": "4",
		"group.initial.rebalance.delay.ms":     "0",
		"log.cleaner.dedupe.buffer.size":       "16777216",

		// Only the lower bounds: the defaults stay, and a test may choose a short session for its group.
		"group.min.session.timeout.ms":             "500",
		"group.consumer.min.session.timeout.ms":    "1000",
		"group.consumer.min.heartbeat.interval.ms": "100",
	}
	listeners := []string{"PLAINTEXT://" + loopback(ports[0])}
	if c.Secure != nil {
		listeners = append(listeners, "SASL_SSL://"+loopback(ports[2]), "SSL://"+loopback(ports[3]))
		maps.Copy(p, c.Secure.properties())
	}
	p["advertised.listeners"] = strings.Join(listeners, ",")
	p["listeners"] = strings.Join(append(listeners, "CONTROLLER://"+loopback(ports[1])), ",")
	if c.opts.ACLs {
		p["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
		p["super.users"] = "User:ANONYMOUS" // plaintext clients, the brokers among themselves, the controllers
	}
	maps.Copy(p, c.opts.Properties)

	var s strings.Builder
	for _, k := range slices.Sorted(maps.Keys(p)) {
		fmt.Fprintf(&s, "%s=%s\n", k, p[k])
	}
	return s.String()
}

// formatArgs are the arguments of StorageTool format.
func (c *Cluster) formatArgs(conf string) []string {
	args := []string{"format", "-t", clusterID, "-c", conf}
	if v := c.opts.TransactionVersion; v > 0 && !strings.HasPrefix(c.opts.Version, "3.") {
		args = append(args, "--feature", fmt.Sprintf("transaction.version=%d", v))
	}
	for _, user := range slices.Sorted(maps.Keys(c.opts.Users)) {
		for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
			args = append(args, "--add-scram",
				fmt.Sprintf("%s=[name=%s,password=%s]", mechanism, user, c.opts.Users[user]))
		}
	}
	return args
}
