// Package place gives each test a namespace of its own in the cluster that KUBECONFIG names, a client whose requests can
// be looked at and whose connections can be broken, and a way to wait.
package place

import (
	"context"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Patience is how long anything may take.
const Patience = 30 * time.Second

// Place is a namespace of its own.
type Place struct {
	*testing.T
	Ctx       context.Context
	Config    *rest.Config
	Client    kubernetes.Interface
	Namespace string
	Line      *Line
}

// New makes a namespace.
func New(t *testing.T) Place {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	// The usual client waits for its turn after a few requests a second.
	config.QPS, config.Burst = -1, -1
	line := &Line{}
	config.Dial = line.dial
	config.Wrap(line.wrap)
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*Patience)
	t.Cleanup(cancel)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "go-"}}
	namespace, err = clients.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return Place{T: t, Ctx: ctx, Config: config, Client: clients, Namespace: namespace.Name, Line: line}
}

// Check ends the test if something failed that must not.
func (p Place) Check(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// Eventually waits until something is so.
func (p Place) Eventually(what string, ask func() bool) {
	p.Helper()
	deadline := time.Now().Add(Patience)
	for !ask() {
		if time.Now().After(deadline) {
			p.Fatalf("not within %s: %s", Patience, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Line is what a client and a server have between them.
type Line struct {
	lock        sync.Mutex
	requests    []Request
	connections []net.Conn
}

// Request is what was asked, and how it was answered.
type Request struct {
	Method, Path, Query, ContentType string
	Status                           int
}

// Requests are all that were made.
func (l *Line) Requests() []Request {
	l.lock.Lock()
	defer l.lock.Unlock()
	return append([]Request(nil), l.requests...)
}

// Break closes every connection.
func (l *Line) Break() {
	l.lock.Lock()
	defer l.lock.Unlock()
	for _, connection := range l.connections {
		_ = connection.Close()
	}
	l.connections = nil
}

func (l *Line) dial(ctx context.Context, network, address string) (net.Conn, error) {
	connection, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		l.lock.Lock()
		defer l.lock.Unlock()
		l.connections = append(l.connections, connection)
	}
	return connection, err
}

type tripper func(*http.Request) (*http.Response, error)

func (t tripper) RoundTrip(request *http.Request) (*http.Response, error) { return t(request) }

func (l *Line) wrap(next http.RoundTripper) http.RoundTripper {
	return tripper(func(request *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(request)
		seen := Request{
			Method: request.Method, Path: request.URL.Path, Query: request.URL.RawQuery,
			ContentType: request.Header.Get("Content-Type"),
		}
		if answer != nil {
			seen.Status = answer.StatusCode
		}
		l.lock.Lock()
		defer l.lock.Unlock()
		l.requests = append(l.requests, seen)
		return answer, err
	})
}
