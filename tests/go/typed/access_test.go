package typed

import (
	"slices"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"bellwether.test/clients/place"
)

// robot makes a ServiceAccount that may read ConfigMaps in its namespace, and returns its name as a user.
func robot(p place.Place) string {
	p.Helper()
	_, err := p.Client.CoreV1().ServiceAccounts(p.Namespace).Create(p.Ctx, &corev1.ServiceAccount{ObjectMeta: named("robot")}, create)
	p.Check(err)
	role := &rbacv1.Role{
		ObjectMeta: named("reader"),
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list"}}},
	}
	_, err = p.Client.RbacV1().Roles(p.Namespace).Create(p.Ctx, role, create)
	p.Check(err)
	binding := &rbacv1.RoleBinding{
		ObjectMeta: named("reader"),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: p.Namespace, Name: "robot"}},
	}
	_, err = p.Client.RbacV1().RoleBindings(p.Namespace).Create(p.Ctx, binding, create)
	p.Check(err)
	return "system:serviceaccount:" + p.Namespace + ":robot"
}

// may is whether somebody may do something to ConfigMaps.
func may(p place.Place, user, verb string) bool {
	p.Helper()
	review, err := p.Client.AuthorizationV1().SubjectAccessReviews().Create(p.Ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, Extra: map[string]authorizationv1.ExtraValue{"example.com/scopes": {"a", "b"}},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: p.Namespace, Verb: verb, Resource: "configmaps"},
		},
	}, create)
	p.Check(err)
	return review.Status.Allowed
}

func TestARoleGivesRights(t *testing.T) {
	p := place.New(t)
	user := robot(p)
	p.Eventually("the role is known", func() bool { return may(p, user, "get") })
	if may(p, user, "delete") {
		t.Fatal("more than the role says")
	}
	local, err := p.Client.AuthorizationV1().LocalSubjectAccessReviews(p.Namespace).Create(p.Ctx, &authorizationv1.LocalSubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               user,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: p.Namespace, Verb: "list", Resource: "configmaps"},
		},
	}, create)
	p.Check(err)
	if !local.Status.Allowed {
		t.Fatalf("%+v", local.Status)
	}

	config := rest.CopyConfig(p.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	as, err := kubernetes.NewForConfig(config)
	p.Check(err)
	_, err = as.CoreV1().ConfigMaps(p.Namespace).List(p.Ctx, list)
	p.Check(err)
	_, err = as.CoreV1().ConfigMaps(p.Namespace).Create(p.Ctx, &corev1.ConfigMap{ObjectMeta: named("a")}, create)
	if !apierrors.IsForbidden(err) {
		t.Fatalf("created by one who may only read: %v", err)
	}
	self, err := as.AuthorizationV1().SelfSubjectAccessReviews().Create(p.Ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: p.Namespace, Verb: "get", Resource: "configmaps"},
		},
	}, create)
	p.Check(err)
	if !self.Status.Allowed {
		t.Fatalf("%+v", self.Status)
	}
	rules, err := as.AuthorizationV1().SelfSubjectRulesReviews().Create(p.Ctx, &authorizationv1.SelfSubjectRulesReview{
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: p.Namespace},
	}, create)
	p.Check(err)
	reads := func(rule authorizationv1.ResourceRule) bool {
		return slices.Equal(rule.Resources, []string{"configmaps"}) && slices.Equal(rule.Verbs, []string{"get", "list"})
	}
	if !slices.ContainsFunc(rules.Status.ResourceRules, reads) {
		t.Fatalf("%+v", rules.Status)
	}
}

func TestATokenIsAskedForUsedAndReviewed(t *testing.T) {
	p := place.New(t)
	user := robot(p)
	p.Eventually("the role is known", func() bool { return may(p, user, "get") })
	seconds := int64(3600)
	token, err := p.Client.CoreV1().ServiceAccounts(p.Namespace).CreateToken(p.Ctx, "robot", &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds},
	}, create)
	p.Check(err)
	if token.Status.Token == "" || token.Status.ExpirationTimestamp.IsZero() {
		t.Fatalf("%+v", token.Status)
	}

	config := rest.AnonymousClientConfig(p.Config)
	config.BearerToken = token.Status.Token
	bearer, err := kubernetes.NewForConfig(config)
	p.Check(err)
	_, err = bearer.CoreV1().ConfigMaps(p.Namespace).List(p.Ctx, list)
	p.Check(err)
	if _, err = bearer.CoreV1().Secrets(p.Namespace).List(p.Ctx, list); !apierrors.IsForbidden(err) {
		t.Fatalf("secrets of one who may read ConfigMaps: %v", err)
	}
	who, err := bearer.AuthenticationV1().SelfSubjectReviews().Create(p.Ctx, &authenticationv1.SelfSubjectReview{}, create)
	p.Check(err)
	if who.Status.UserInfo.Username != user || !slices.Contains(who.Status.UserInfo.Groups, "system:serviceaccounts") {
		t.Fatalf("%+v", who.Status.UserInfo)
	}

	review := func(token string) authenticationv1.TokenReviewStatus {
		reviewed, err := p.Client.AuthenticationV1().TokenReviews().Create(p.Ctx, &authenticationv1.TokenReview{
			Spec: authenticationv1.TokenReviewSpec{Token: token},
		}, create)
		p.Check(err)
		return reviewed.Status
	}
	if status := review(token.Status.Token); !status.Authenticated || status.User.Username != user {
		t.Fatalf("%+v", status)
	}
	if status := review("nonsense"); status.Authenticated {
		t.Fatalf("%+v", status)
	}
	config.BearerToken = "nonsense"
	stranger, err := kubernetes.NewForConfig(config)
	p.Check(err)
	if _, err = stranger.CoreV1().ConfigMaps(p.Namespace).List(p.Ctx, list); !apierrors.IsUnauthorized(err) {
		t.Fatalf("a stranger: %v", err)
	}
}
