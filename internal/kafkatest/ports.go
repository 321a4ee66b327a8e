package kafkatest

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// The range that ports are taken from lies below the one that Linux gives to outgoing connections
// (32768 up by default). A port of the kernel's choice would lie inside it: while a killed broker is
// down, any client's connection could get the port as its source, and the broker could not come back.
const (
	lowestPort = 20000
	portCount  = 12000
)

// freePorts returns n different loopback ports that were free when it looked. Another process can
// take one before the broker binds it: whoever starts the broker tries again with others.
func freePorts(n int) ([]int, error) {
	var ports []int
	var held []net.Listener
	defer func() {
		for _, l := range held {
			l.Close()
		}
	}()
	// Every listener is kept until all are found, so that no port is found twice.
	for try := 0; len(ports) < n; try++ {
		if try == 1000 {
			return nil, fmt.Errorf("kafkatest: found only %d of %d free ports in %d to %d", len(ports), n, lowestPort, lowestPort+portCount-1)
		}
		port := lowestPort + rand.IntN(portCount)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue // in use
		}
		held = append(held, l)
		ports = append(ports, port)
	}
	return ports, nil
}
