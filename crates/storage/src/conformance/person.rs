//! Cases for [`crate::PersonStore`].

use std::time::Duration;

use tollgate_types::{AccountId, AdminId, LinkId, MemberId, PersonId, SessionId};

use super::Factory;
use super::admin::admin;
use super::member::member;
use super::samples::{START, account, at, concurrently, digest, kind, warm_up};
use super::session::session;
use crate::{
    AccountChange, AccountState, CloseOutcome, Invitation, LinkPurpose, LinkTarget, Member, MemberRole,
    Membership, Password, Person, PersonChange, Redemption, RedemptionOutcome, Session, SessionOwner,
    SignInFailures, SignInLink, Storage, StorageErrorKind,
};

const MICRO: Duration = Duration::from_micros(1);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Makes a link whose digest begins with its number, created at [`START`], that expires an hour
/// later.
fn link(number: u128, target: LinkTarget) -> SignInLink {
    SignInLink {
        id: LinkId::from_u128(number),
        digest: digest(number),
        purpose: LinkPurpose::SignIn,
        target,
        created_at: START,
        expires_at: at(3600),
    }
}

fn invitation(number: u128, member: u128) -> SignInLink {
    SignInLink {
        purpose: LinkPurpose::Invitation,
        ..link(number, to_member(member))
    }
}

fn to_member(number: u128) -> LinkTarget {
    LinkTarget::Member(MemberId::from_u128(number))
}

fn to_owner(number: u128) -> LinkTarget {
    LinkTarget::Owner(AccountId::from_u128(number))
}

fn to_admin(number: u128) -> LinkTarget {
    LinkTarget::Admin(AdminId::from_u128(number))
}

fn owner(person: u128) -> SessionOwner {
    SessionOwner::Person(PersonId::from_u128(person))
}

/// Makes a redemption of the link with this number on the public listener, by a visitor who is not
/// signed in. A new person and the session have the number of the link, a new member the number
/// plus 100.
fn redemption(number: u128) -> Redemption {
    Redemption {
        digest: digest(number),
        is_admin: false,
        signed_in: None,
        new_person: PersonId::from_u128(number),
        new_member: MemberId::from_u128(number + 100),
        session: session(number, owner(u128::MAX)),
        at: at(10),
    }
}

fn by(person: u128, number: u128) -> Redemption {
    Redemption {
        signed_in: Some(PersonId::from_u128(person)),
        ..redemption(number)
    }
}

async fn redeem(storage: &Storage, redemption: Redemption) -> RedemptionOutcome {
    storage.people.redeem(redemption).await.unwrap()
}

async fn create(storage: &Storage, link: SignInLink) {
    storage.people.create_link(link).await.unwrap();
}

/// Returns the outcome of a redemption of the link with this number.
fn signed_in(number: u128, owner: SessionOwner) -> RedemptionOutcome {
    RedemptionOutcome::SignedIn(session(number, owner))
}

fn address(number: u128) -> String {
    member(number, 0, MemberRole::Member).email
}

/// Makes the person that the link with this number creates.
fn person(number: u128, email: Option<String>) -> Person {
    Person {
        id: PersonId::from_u128(number),
        email,
        name: String::new(),
        created_at: at(10),
    }
}

/// Adds a member to the account, whose invitation creates a person with the same number.
pub(super) async fn new_person(storage: &Storage, number: u128, account: AccountId) -> Person {
    let new = member(number, account.as_u128(), MemberRole::Member);
    storage.members.add(new).await.unwrap();
    create(storage, invitation(number, number)).await;
    let outcome = redeem(storage, redemption(number)).await;
    assert_eq!(outcome, signed_in(number, owner(number)));
    let id = PersonId::from_u128(number);
    storage.people.get(id).await.unwrap().unwrap()
}

async fn accounts(storage: &Storage, count: u128) {
    for number in 1..=count {
        storage.accounts.create(account(number)).await.unwrap();
    }
}

async fn members(storage: &Storage, number: u128) -> Vec<Member> {
    storage.members.list(account(number).id).await.unwrap()
}

/// Suspends the account, and closes it if this is the new state.
async fn set_state(storage: &Storage, number: u128, state: AccountState) {
    let id = account(number).id;
    let change = AccountChange {
        state: Some(AccountState::Suspended),
        ..AccountChange::default()
    };
    storage.accounts.change(id, change).await.unwrap();
    if state == AccountState::Closed {
        let closed = storage.accounts.close_account(id, at(5)).await.unwrap();
        assert!(matches!(closed, CloseOutcome::Closed(_)), "{closed:?}");
    }
}

/// Checks that the link of a member creates its person and a session, once, for either purpose.
pub async fn links_create_their_people(factory: Factory) {
    let storage = factory.open().await;
    accounts(&storage, 1).await;
    let people = &storage.people;
    for (number, purpose) in [(1, LinkPurpose::SignIn), (2, LinkPurpose::Invitation)] {
        let new = member(number, 1, MemberRole::Viewer);
        storage.members.add(new.clone()).await.unwrap();
        create(
            &storage,
            SignInLink {
                purpose,
                ..link(number, to_member(number))
            },
        )
        .await;
        let (id, email) = (PersonId::from_u128(number), address(number));
        assert_eq!(people.get(id).await.unwrap(), None);
        assert_eq!(people.find(email.clone()).await.unwrap(), None);
        let outcome = redeem(&storage, redemption(number)).await;
        assert_eq!(outcome, signed_in(number, owner(number)));
        let created = Some(person(number, Some(email.clone())));
        assert_eq!(people.get(id).await.unwrap(), created);
        assert_eq!(people.find(email).await.unwrap(), created);
        let accepted = Member {
            person: Some(id),
            ..new
        };
        let found = storage.members.of_person(accepted.account, id).await;
        assert_eq!(found.unwrap(), Some(accepted));
        let sessions = storage.sessions.list(owner(number)).await.unwrap();
        assert_eq!(sessions, [session(number, owner(number))]);
        let again = Redemption {
            session: session(9, owner(1)),
            ..redemption(number)
        };
        assert_eq!(redeem(&storage, again).await, RedemptionOutcome::Gone);
    }
    assert_eq!(
        storage
            .sessions
            .find(digest(9)[..16].try_into().unwrap())
            .await
            .unwrap(),
        None
    );
}

/// Checks that a token with another second half of the digest redeems nothing.
pub async fn whole_digest_is_compared(factory: Factory) {
    let storage = factory.open().await;
    accounts(&storage, 1).await;
    create(&storage, link(1, to_owner(1))).await;
    for place in [0, 15, 16, 31] {
        let mut wrong = redemption(1);
        wrong.digest[place] ^= 1;
        assert_eq!(redeem(&storage, wrong).await, RedemptionOutcome::Gone, "{place}");
    }
    assert_eq!(redeem(&storage, redemption(9)).await, RedemptionOutcome::Gone);
    assert_eq!(members(&storage, 1).await, []);
    assert_eq!(redeem(&storage, redemption(1)).await, signed_in(1, owner(1)));
}

/// Checks that a link is valid until its expiry, including that instant.
pub async fn links_expire(factory: Factory) {
    let storage = factory.open().await;
    accounts(&storage, 2).await;
    storage.admins.create(admin(1, "jo")).await.unwrap();
    for (number, target) in [(1, to_owner(1)), (2, to_owner(2)), (3, to_admin(1))] {
        create(&storage, link(number, target)).await;
    }
    let expiry = link(1, to_owner(1)).expires_at;
    for (number, at, is_valid) in [
        (1, expiry, true),
        (2, expiry.plus(MICRO), false),
        (3, expiry.plus(MICRO), false),
    ] {
        let attempt = Redemption {
            is_admin: number == 3,
            at,
            ..redemption(number)
        };
        let outcome = redeem(&storage, attempt).await;
        assert_eq!(outcome != RedemptionOutcome::Gone, is_valid, "{number}");
    }
    assert_eq!(members(&storage, 2).await, []);
}

/// Checks that a link replaces those with its purpose and target, and that its target must exist.
pub async fn links_replace_earlier_ones(factory: Factory) {
    let storage = factory.open().await;
    accounts(&storage, 2).await;
    for number in [1, 2, 3] {
        let new = member(number, 1, MemberRole::Member);
        storage.members.add(new).await.unwrap();
    }
    storage.admins.create(admin(1, "jo")).await.unwrap();
    for (number, target) in [(1, to_member(9)), (2, to_owner(9)), (3, to_admin(9))] {
        let refused = storage.people.create_link(link(number, target)).await;
        assert_eq!(kind(refused), StorageErrorKind::NotFound, "{target:?}");
    }
    // Links that the following ones do not replace.
    create(&storage, link(1, to_member(1))).await;
    create(&storage, invitation(2, 2)).await;
    create(&storage, link(3, to_owner(2))).await;
    for (number, new) in [
        (4, invitation(4, 1)),
        (5, link(5, to_owner(1))),
        (6, link(6, to_admin(1))),
        (7, link(7, to_member(3))),
    ] {
        create(&storage, new.clone()).await;
        let newer = SignInLink {
            id: LinkId::from_u128(number + 10),
            digest: digest(number + 10),
            ..new.clone()
        };
        create(&storage, newer.clone()).await;
        for used in [
            SignInLink {
                target: to_member(2),
                purpose: LinkPurpose::SignIn,
                ..newer.clone()
            },
            SignInLink {
                id: LinkId::from_u128(99),
                target: to_member(2),
                purpose: LinkPurpose::SignIn,
                ..newer
            },
        ] {
            let refused = storage.people.create_link(used).await;
            assert_eq!(kind(refused), StorageErrorKind::Conflict);
        }
    }
    for number in [4, 5, 6, 7] {
        for is_admin in [false, true] {
            let attempt = Redemption {
                is_admin,
                ..redemption(number)
            };
            assert_eq!(redeem(&storage, attempt).await, RedemptionOutcome::Gone);
        }
    }
    // The invitation precedes the link of the same member, which ends it.
    for number in [14, 1, 2, 3, 15, 16, 17] {
        let attempt = Redemption {
            is_admin: number == 16,
            ..redemption(number)
        };
        let outcome = redeem(&storage, attempt).await;
        assert!(
            matches!(outcome, RedemptionOutcome::SignedIn(_)),
            "{number} {outcome:?}"
        );
    }
}

/// Checks that each listener redeems its own links, and that the others remain valid.
pub async fn listeners_redeem_their_own_links(factory: Factory) {
    let storage = factory.open().await;
    accounts(&storage, 1).await;
    storage
        .members
        .add(member(1, 1, MemberRole::Member))
        .await
        .unwrap();
    storage.admins.create(admin(1, "jo")).await.unwrap();
    let admin = SessionOwner::Admin(AdminId::from_u128(1));
    for (number, target, is_admin, expected) in [
        (1, to_member(1), false, owner(1)),
        (2, to_owner(1), false, owner(2)),
        (3, to_admin(1), true, admin),
    ] {
        create(&storage, link(number, target)).await;
        let at_listener = |is_admin| Redemption {
            is_admin,
            ..redemption(number)
        };
        let outcome = redeem(&storage, at_listener(!is_admin)).await;
        assert_eq!(outcome, RedemptionOutcome::Gone);
        let outcome = redeem(&storage, at_listener(is_admin)).await;
        assert_eq!(outcome, signed_in(number, expected));
        assert_eq!(
            storage.sessions.list(expected).await.unwrap(),
            [session(number, expected)]
        );
        let outcome = redeem(&storage, at_listener(is_admin)).await;
        assert_eq!(outcome, RedemptionOutcome::Gone);
    }
    assert_eq!(storage.people.get(PersonId::from_u128(3)).await.unwrap(), None);
}

/// Checks that the links of a removed member, a closed account and a revoked administrator are
/// gone. Those of a suspended account remain valid.
pub async fn links_end_with_their_targets(factory: Factory) {
    let storage = factory.open().await;
    accounts(&storage, 3).await;
    for (number, account) in [(1, 1), (2, 1), (3, 2), (4, 3)] {
        let new = member(number, account, MemberRole::Member);
        storage.members.add(new).await.unwrap();
        create(&storage, link(number, to_member(number))).await;
        create(&storage, invitation(number + 10, number)).await;
    }
    create(&storage, link(5, to_owner(2))).await;
    create(&storage, link(6, to_owner(3))).await;
    storage.admins.create(admin(1, "jo")).await.unwrap();
    create(&storage, link(7, to_admin(1))).await;

    let removed = member(1, 1, MemberRole::Member);
    storage.members.remove(removed.account, removed.id).await.unwrap();
    let refused = storage.people.create_link(link(8, to_member(1))).await;
    assert_eq!(kind(refused), StorageErrorKind::NotFound);
    // Even a member with the same id has no links.
    storage.members.add(removed).await.unwrap();
    set_state(&storage, 2, AccountState::Closed).await;
    set_state(&storage, 3, AccountState::Suspended).await;
    storage.admins.revoke(AdminId::from_u128(1), at(5)).await.unwrap();
    for (number, is_valid) in [
        (1, false),
        (11, false),
        (12, true),
        (2, true),
        (3, false),
        (13, false),
        (4, true),
        (5, false),
        (6, true),
        (7, false),
    ] {
        let attempt = Redemption {
            is_admin: number == 7,
            ..redemption(number)
        };
        let outcome = redeem(&storage, attempt).await;
        assert_eq!(outcome != RedemptionOutcome::Gone, is_valid, "{number}");
    }
    // A link that is created after the account was closed is gone, too.
    create(&storage, link(9, to_owner(2))).await;
    assert_eq!(redeem(&storage, redemption(9)).await, RedemptionOutcome::Gone);
    assert_eq!(members(&storage, 2).await, []);
}

/// Checks that the link of a member with a person signs that person in, even if another is signed
/// in, and that an invitation of such a member is gone.
pub async fn known_members_are_signed_in(factory: Factory) {
    let storage = factory.open().await;
    accounts(&storage, 1).await;
    let known = new_person(&storage, 1, account(1).id).await;
    new_person(&storage, 2, account(1).id).await;
    let before = members(&storage, 1).await;
    for (number, attempt) in [(3, redemption(3)), (4, by(1, 4)), (5, by(2, 5))] {
        create(&storage, link(number, to_member(1))).await;
        assert_eq!(redeem(&storage, attempt).await, signed_in(number, owner(1)));
        let created = storage.people.get(PersonId::from_u128(number)).await;
        assert_eq!(created.unwrap(), None);
    }
    create(&storage, invitation(6, 1)).await;
    for attempt in [redemption(6), by(1, 6), by(2, 6)] {
        assert_eq!(redeem(&storage, attempt).await, RedemptionOutcome::Gone);
    }
    assert_eq!(members(&storage, 1).await, before);
    assert_eq!(storage.people.get(known.id).await.unwrap(), Some(known));
    assert_eq!(storage.sessions.list(owner(1)).await.unwrap().len(), 4);
    assert_eq!(storage.sessions.list(owner(2)).await.unwrap().len(), 1);
}

/// Checks that a member whose address belongs to a person is accepted only by that person, signed
/// in. Until then, nothing is written and the link remains valid.
pub async fn known_addresses_need_sign_in(factory: Factory) {
    let storage = factory.open().await;
    accounts(&storage, 4).await;
    new_person(&storage, 1, account(1).id).await;
    new_person(&storage, 2, account(1).id).await;
    for (number, purpose, role) in [
        (2, LinkPurpose::Invitation, MemberRole::Admin),
        (3, LinkPurpose::SignIn, MemberRole::Viewer),
        (4, LinkPurpose::SignIn, MemberRole::Owner),
    ] {
        let invited = Member {
            email: address(1),
            ..member(number * 10, number, role)
        };
        storage.members.add(invited.clone()).await.unwrap();
        let target = match role {
            MemberRole::Owner => to_owner(number),
            _ => to_member(number * 10),
        };
        let new = SignInLink {
            purpose,
            ..link(number, target)
        };
        create(&storage, new).await;
        for attempt in [redemption(number), by(2, number), by(99, number)] {
            let refused = RedemptionOutcome::NeedsSignIn { email: address(1) };
            assert_eq!(redeem(&storage, attempt).await, refused);
            assert_eq!(members(&storage, number).await, std::slice::from_ref(&invited));
            let created = storage.people.get(PersonId::from_u128(number)).await;
            assert_eq!(
                created.unwrap().map(|person| person.created_at),
                (number == 2).then_some(at(10))
            );
        }
        assert_eq!(storage.sessions.list(owner(2)).await.unwrap().len(), 1);
        let session = Session {
            id: SessionId::from_u128(number * 10),
            ..session(number * 10, owner(1))
        };
        let attempt = Redemption {
            session: session.clone(),
            ..by(1, number)
        };
        assert_eq!(
            redeem(&storage, attempt).await,
            RedemptionOutcome::SignedIn(session)
        );
        let accepted = Member {
            person: Some(PersonId::from_u128(1)),
            ..invited
        };
        assert_eq!(members(&storage, number).await, [accepted]);
        assert_eq!(redeem(&storage, by(1, number)).await, RedemptionOutcome::Gone);
    }
}

/// Checks that a visitor who is not signed in becomes the first owner of an account, as a new
/// person without an address; later links of the account sign in this person.
pub async fn visitors_become_the_first_owner(factory: Factory) {
    let storage = factory.open().await;
    accounts(&storage, 2).await;
    let other = member(1, 1, MemberRole::Admin);
    storage.members.add(other.clone()).await.unwrap();
    for (number, account, others) in [(2, 1, vec![other]), (3, 2, vec![])] {
        create(&storage, link(number, to_owner(account))).await;
        assert_eq!(
            redeem(&storage, redemption(number)).await,
            signed_in(number, owner(number))
        );
        let created = storage.people.get(PersonId::from_u128(number)).await;
        assert_eq!(created.unwrap(), Some(person(number, None)));
        let first = Member {
            id: MemberId::from_u128(number + 100),
            account: AccountId::from_u128(account),
            person: Some(PersonId::from_u128(number)),
            email: String::new(),
            role: MemberRole::Owner,
            created_at: at(10),
        };
        let expected: Vec<Member> = others.into_iter().chain([first]).collect();
        assert_eq!(members(&storage, account).await, expected);
        assert_eq!(
            redeem(&storage, redemption(number)).await,
            RedemptionOutcome::Gone
        );
        create(&storage, link(number + 10, to_owner(account))).await;
        assert_eq!(
            redeem(&storage, redemption(number + 10)).await,
            signed_in(number + 10, owner(number))
        );
        assert_eq!(members(&storage, account).await, expected);
    }
}

/// Checks that a signed-in person, with or without an address, becomes the first owner of an
/// account.
pub async fn signed_in_people_become_the_first_owner(factory: Factory) {
    let storage = factory.open().await;
    accounts(&storage, 4).await;
    new_person(&storage, 1, account(1).id).await;
    create(&storage, link(2, to_owner(2))).await;
    redeem(&storage, redemption(2)).await;
    for (visitor, email, number) in [(1, address(1), 3), (2, String::new(), 4)] {
        create(&storage, link(number, to_owner(number))).await;
        assert_eq!(
            redeem(&storage, by(visitor, number)).await,
            signed_in(number, owner(visitor))
        );
        let created = storage.people.get(PersonId::from_u128(number)).await;
        assert_eq!(created.unwrap(), None);
        let first = Member {
            id: MemberId::from_u128(number + 100),
            account: AccountId::from_u128(number),
            person: Some(PersonId::from_u128(visitor)),
            email,
            role: MemberRole::Owner,
            created_at: at(10),
        };
        assert_eq!(members(&storage, number).await, [first]);
    }
}

/// Checks that a signed-in person who is a member of the account, or is invited to it, becomes its
/// first owner as this member.
pub async fn members_become_the_first_owner(factory: Factory) {
    let storage = factory.open().await;
    accounts(&storage, 2).await;
    let known = new_person(&storage, 1, account(1).id).await;
    let invited = Member {
        email: address(1),
        ..member(2, 2, MemberRole::Viewer)
    };
    storage.members.add(invited.clone()).await.unwrap();
    for (number, before) in [(1, members(&storage, 1).await.remove(0)), (2, invited)] {
        create(&storage, link(number, to_owner(number))).await;
        let attempt = Redemption {
            session: session(number + 10, owner(0)),
            ..by(1, number)
        };
        assert_eq!(redeem(&storage, attempt).await, signed_in(number + 10, owner(1)));
        let first = Member {
            person: Some(known.id),
            role: MemberRole::Owner,
            ..before
        };
        assert_eq!(members(&storage, number).await, [first]);
    }
}

/// Checks that the link of an account signs in the owner with the lowest id.
pub async fn first_owner_is_signed_in(factory: Factory) {
    let storage = factory.open().await;
    accounts(&storage, 1).await;
    for (number, role) in [
        (3, MemberRole::Owner),
        (2, MemberRole::Owner),
        (1, MemberRole::Admin),
    ] {
        storage.members.add(member(number, 1, role)).await.unwrap();
    }
    create(&storage, link(5, to_owner(1))).await;
    assert_eq!(redeem(&storage, redemption(5)).await, signed_in(5, owner(5)));
    let people: Vec<_> = members(&storage, 1)
        .await
        .iter()
        .map(|member| member.person)
        .collect();
    assert_eq!(people, [None, Some(PersonId::from_u128(5)), None]);
    let created = storage.people.get(PersonId::from_u128(5)).await;
    assert_eq!(created.unwrap(), Some(person(5, Some(address(2)))));
}

/// Checks that, of several simultaneous redemptions of a link, one succeeds.
pub async fn concurrent_redemptions_succeed_once(factory: Factory) {
    let storage = factory.open().await;
    accounts(&storage, 1).await;
    storage
        .members
        .add(member(1, 1, MemberRole::Member))
        .await
        .unwrap();
    storage.admins.create(admin(1, "jo")).await.unwrap();
    warm_up(&storage, account(1).id).await;
    for (place, target) in (1..).zip([to_member(1), to_owner(1), to_admin(1)]) {
        create(&storage, link(place, target)).await;
        let outcomes = concurrently(8, |number| {
            let people = storage.people.clone();
            let number = place * 10 + number as u128;
            let attempt = Redemption {
                digest: digest(place),
                is_admin: place == 3,
                ..redemption(number)
            };
            Box::pin(async move { people.redeem(attempt).await.unwrap() })
        })
        .await;
        let gone = outcomes
            .iter()
            .filter(|outcome| **outcome == RedemptionOutcome::Gone)
            .count();
        assert_eq!(gone, 7, "{outcomes:?}");
        let mut found = 0;
        for number in 0..8 {
            let prefix = (place * 10 + number).to_be_bytes();
            found += usize::from(storage.sessions.find(prefix).await.unwrap().is_some());
        }
        assert_eq!(found, 1);
    }
    assert_eq!(members(&storage, 1).await.len(), 2);
}

/// Checks that simultaneous redemptions for one new address create one person. The other links
/// remain valid until this person is signed in.
pub async fn concurrent_redemptions_create_one_person(factory: Factory) {
    let storage = factory.open().await;
    accounts(&storage, 8).await;
    for number in 1..=8 {
        let invited = Member {
            email: address(1),
            ..member(number, number, MemberRole::Member)
        };
        storage.members.add(invited).await.unwrap();
        create(&storage, invitation(number, number)).await;
    }
    warm_up(&storage, account(1).id).await;
    let outcomes = concurrently(8, |number| {
        let people = storage.people.clone();
        Box::pin(async move { people.redeem(redemption(number as u128 + 1)).await.unwrap() })
    })
    .await;
    let refused = RedemptionOutcome::NeedsSignIn { email: address(1) };
    let known = storage.people.find(address(1)).await.unwrap().unwrap();
    for (number, outcome) in (1..).zip(outcomes) {
        let expected = match number == known.id.as_u128() {
            true => signed_in(number, owner(number)),
            false => refused.clone(),
        };
        assert_eq!(outcome, expected);
        let created = storage.people.get(PersonId::from_u128(number)).await;
        assert_eq!(created.unwrap().is_some(), number == known.id.as_u128());
        if outcome == refused {
            let accepted = redeem(&storage, by(known.id.as_u128(), number)).await;
            assert_eq!(accepted, signed_in(number, SessionOwner::Person(known.id)));
        }
    }
    let memberships = storage.people.memberships(known.id).await.unwrap();
    assert_eq!(memberships.len(), 8);
}

/// Checks that simultaneous redemptions of different links of an account create one owner. The
/// invitation is gone if it comes second.
pub async fn concurrent_visitors_create_one_owner(factory: Factory) {
    let storage = factory.open().await;
    accounts(&storage, 1).await;
    warm_up(&storage, account(1).id).await;
    create(&storage, link(1, to_owner(1))).await;
    let invited = SignInLink {
        purpose: LinkPurpose::Invitation,
        ..link(2, to_owner(1))
    };
    create(&storage, invited).await;
    let outcomes = concurrently(2, |number| {
        let people = storage.people.clone();
        Box::pin(async move { people.redeem(redemption(number as u128 + 1)).await.unwrap() })
    })
    .await;
    let members = members(&storage, 1).await;
    assert_eq!(members.len(), 1);
    let first = SessionOwner::Person(members[0].person.unwrap());
    assert_eq!(outcomes[0], signed_in(1, first));
    let possible = [signed_in(2, first), RedemptionOutcome::Gone];
    assert!(possible.contains(&outcomes[1]), "{:?}", outcomes[1]);
}

/// Checks that a person receives a name and an address, which its members without an address
/// receive, too.
pub async fn people_are_changed(factory: Factory) {
    let storage = factory.open().await;
    accounts(&storage, 3).await;
    for number in [1, 2] {
        create(&storage, link(number, to_owner(number))).await;
        redeem(&storage, if number == 1 { redemption(1) } else { by(1, 2) }).await;
    }
    new_person(&storage, 3, account(3).id).await;
    let change = async |number, email: Option<&str>, name: Option<&str>| {
        let change = PersonChange {
            email: email.map(str::to_owned),
            name: name.map(str::to_owned),
        };
        storage.people.change(PersonId::from_u128(number), change).await
    };
    assert_eq!(change(1, None, None).await.unwrap(), person(1, None));
    let zoe = |email: Option<&str>, name: &str| Person {
        name: name.to_owned(),
        ..person(1, email.map(str::to_owned))
    };
    let email = Some("zoe@example.com");
    for (new, name, expected) in [
        (None, Some("Zoë"), zoe(None, "Zoë")),
        (email, None, zoe(email, "Zoë")),
        (None, None, zoe(email, "Zoë")),
        (email, Some("Z"), zoe(email, "Z")),
        (None, Some(""), zoe(email, "")),
    ] {
        assert_eq!(change(1, new, name).await.unwrap(), expected);
        assert_eq!(
            storage.people.get(expected.id).await.unwrap().as_ref(),
            Some(&expected)
        );
        for number in [1, 2] {
            let member = &members(&storage, number).await[0];
            assert_eq!(member.email, expected.email.clone().unwrap_or_default());
        }
    }
    let found = storage.people.find("zoe@example.com".to_owned()).await;
    assert_eq!(found.unwrap(), Some(zoe(email, "")));
    assert_eq!(members(&storage, 3).await[0].email, address(3));
    for name in [None, Some("Jo")] {
        let missing = change(9, None, name).await;
        assert_eq!(kind(missing), StorageErrorKind::NotFound);
    }
}

/// Checks that a person keeps an address, and cannot have that of another person or of another
/// member of one of its accounts. Such a change writes nothing.
pub async fn conflicting_changes_write_nothing(factory: Factory) {
    let storage = factory.open().await;
    accounts(&storage, 3).await;
    let with_address = new_person(&storage, 1, account(1).id).await;
    create(&storage, link(2, to_owner(2))).await;
    redeem(&storage, redemption(2)).await;
    // An invited member of the account of person 2, and one of another account.
    for (number, account) in [(3, 2), (4, 3)] {
        let invited = member(number, account, MemberRole::Member);
        storage.members.add(invited).await.unwrap();
    }
    let change = async |number, email: String| {
        let change = PersonChange {
            email: Some(email),
            name: Some("Zoë".to_owned()),
        };
        storage.people.change(PersonId::from_u128(number), change).await
    };
    for (number, email) in [(1, address(9)), (2, address(1)), (2, address(3))] {
        let refused = change(number, email).await;
        assert_eq!(kind(refused), StorageErrorKind::Conflict, "{number}");
    }
    let stored = async |number| storage.people.get(PersonId::from_u128(number)).await.unwrap();
    assert_eq!(stored(1).await, Some(with_address));
    assert_eq!(stored(2).await, Some(person(2, None)));
    let emails = async || -> Vec<String> {
        let members = members(&storage, 2).await;
        members.into_iter().map(|member| member.email).collect()
    };
    assert_eq!(emails().await, [address(3), String::new()]);
    change(2, address(4)).await.unwrap();
    assert_eq!(emails().await, [address(3), address(4)]);
}

/// Checks that a new password replaces the old one and deletes the person's other sessions.
pub async fn passwords_are_replaced(factory: Factory) {
    let storage = factory.open().await;
    accounts(&storage, 1).await;
    let (one, two) = (
        new_person(&storage, 1, account(1).id).await.id,
        new_person(&storage, 2, account(1).id).await.id,
    );
    storage.admins.create(admin(1, "jo")).await.unwrap();
    let admin = SessionOwner::Admin(AdminId::from_u128(1));
    for (number, owner) in [(3, owner(1)), (4, owner(1)), (5, admin)] {
        let new = session(number, owner);
        storage.sessions.create(new, None).await.unwrap();
    }
    let ids = async |owner| -> Vec<u128> {
        let listed = storage.sessions.list(owner).await.unwrap();
        listed.iter().map(|session| session.id.as_u128()).collect()
    };
    let password = |text: &str, seconds| Password {
        hash: text.to_owned(),
        set_at: at(seconds),
    };
    let people = &storage.people;
    assert!(people.password(one).await.unwrap().is_none());
    let (first, other) = (SessionId::from_u128(1), SessionId::from_u128(2));
    for (hash, session) in [("$argon2id$v=19$m=1,t=1,p=1$c2FsdA$aGFzaA", 3), ("other", 3)] {
        let new = password(hash, 1);
        let session = SessionId::from_u128(session);
        people.set_password(one, new.clone(), session).await.unwrap();
        assert!(people.password(one).await.unwrap() == Some(new));
        assert_eq!(ids(owner(1)).await, [3]);
    }
    // A session that has ended, that of another person, and that of an administrator.
    for session in [first, other, SessionId::from_u128(5)] {
        let refused = people.set_password(one, password("third", 2), session).await;
        assert_eq!(kind(refused), StorageErrorKind::NotFound);
    }
    assert!(people.password(one).await.unwrap() == Some(password("other", 1)));
    assert_eq!(ids(owner(1)).await, [3]);
    assert!(people.password(two).await.unwrap().is_none());
    assert_eq!(ids(owner(2)).await, [2]);
    assert_eq!(ids(admin).await, [5]);
    let unknown = PersonId::from_u128(9);
    let refused = people.set_password(unknown, password("", 0), other).await;
    assert_eq!(kind(refused), StorageErrorKind::NotFound);
    assert!(people.password(unknown).await.unwrap().is_none());
}

/// Checks that the link of a password reset deletes the password and all other sessions of its
/// person, and that the links of other purposes delete neither.
pub async fn resets_delete_the_password(factory: Factory) {
    let storage = factory.open().await;
    accounts(&storage, 1).await;
    for number in [1, 2] {
        let person = new_person(&storage, number, account(1).id).await.id;
        let password = Password {
            hash: format!("hash {number}"),
            set_at: at(1),
        };
        let session = SessionId::from_u128(number);
        storage
            .people
            .set_password(person, password, session)
            .await
            .unwrap();
    }
    create(&storage, link(3, to_member(1))).await;
    create(
        &storage,
        SignInLink {
            purpose: LinkPurpose::PasswordReset,
            ..link(4, to_member(1))
        },
    )
    .await;
    for (number, sessions, has_password) in [(3, vec![1, 3], true), (4, vec![4], false)] {
        assert_eq!(
            redeem(&storage, redemption(number)).await,
            signed_in(number, owner(1))
        );
        let listed = storage.sessions.list(owner(1)).await.unwrap();
        let listed: Vec<u128> = listed.iter().map(|session| session.id.as_u128()).collect();
        assert_eq!(listed, sessions);
        let password = storage.people.password(PersonId::from_u128(1)).await.unwrap();
        assert_eq!(password.is_some(), has_password, "{number}");
    }
    let other = storage.people.password(PersonId::from_u128(2)).await.unwrap();
    assert!(other.is_some());
    assert_eq!(storage.sessions.list(owner(2)).await.unwrap().len(), 1);
}

/// Checks that the memberships of a person are listed by member id, without those of closed
/// accounts.
pub async fn memberships_are_listed(factory: Factory) {
    let storage = factory.open().await;
    accounts(&storage, 4).await;
    let person = new_person(&storage, 5, account(3).id).await.id;
    for (number, account, role) in [
        (7, 1, MemberRole::Owner),
        (6, 2, MemberRole::Billing),
        (8, 4, MemberRole::Viewer),
    ] {
        let new = Member {
            person: Some(person),
            ..member(number, account, role)
        };
        storage.members.add(new).await.unwrap();
    }
    let other = member(1, 1, MemberRole::Owner);
    storage.members.add(other).await.unwrap();
    set_state(&storage, 2, AccountState::Suspended).await;
    set_state(&storage, 4, AccountState::Closed).await;
    let membership = |number: u128, of: u128, role| Membership {
        member: Member {
            person: Some(person),
            ..member(number, of, role)
        },
        account_name: account(of).name,
    };
    assert_eq!(
        storage.people.memberships(person).await.unwrap(),
        [
            membership(5, 3, MemberRole::Member),
            membership(6, 2, MemberRole::Billing),
            membership(7, 1, MemberRole::Owner),
        ]
    );
    let unknown = storage.people.memberships(PersonId::from_u128(9)).await;
    assert_eq!(unknown.unwrap(), []);
}

/// Checks that the invitations of one account are listed until they are accepted, with the expiry
/// of the newest.
pub async fn invitations_are_listed(factory: Factory) {
    let storage = factory.open().await;
    accounts(&storage, 2).await;
    for (number, account) in [(3, 1), (2, 1), (1, 1), (4, 2), (5, 1), (6, 1)] {
        let new = member(number, account, MemberRole::Member);
        storage.members.add(new).await.unwrap();
    }
    let expires = |number: u128, member: u128, seconds| SignInLink {
        expires_at: at(seconds),
        ..invitation(number, member)
    };
    for new in [
        expires(1, 3, 100),
        expires(2, 2, 900),
        expires(3, 2, 0),
        expires(4, 1, 300),
        expires(5, 4, 400),
        expires(6, 6, 500),
        link(7, to_member(5)),
        link(8, to_member(6)),
    ] {
        create(&storage, new).await;
    }
    let listed = async |number| {
        let listed = storage.people.invitations(account(number).id).await.unwrap();
        let fields = |one: &Invitation| (one.member.as_u128(), one.expires_at);
        listed.iter().map(fields).collect::<Vec<_>>()
    };
    assert_eq!(
        listed(1).await,
        [(1, at(300)), (2, at(0)), (3, at(100)), (6, at(500))]
    );
    assert_eq!(listed(2).await, [(4, at(400))]);
    // Members are accepted by their invitation or by another link.
    for number in [4, 8] {
        let outcome = redeem(&storage, redemption(number)).await;
        assert!(matches!(outcome, RedemptionOutcome::SignedIn(_)), "{outcome:?}");
    }
    let removed = storage.members.remove(account(1).id, MemberId::from_u128(3));
    removed.await.unwrap();
    assert_eq!(listed(1).await, [(2, at(0))]);
    assert_eq!(listed(9).await, []);
}

/// Checks that failed sign-ins are counted by digest, in periods that begin with the first failure.
pub async fn failures_are_counted_by_period(factory: Factory) {
    let storage = factory.open().await;
    let people = &storage.people;
    assert_eq!(people.failures(digest(1), START).await.unwrap(), None);
    let failures = |count, seconds| SignInFailures {
        count,
        since: at(seconds),
    };
    for (seconds, since, expected) in [
        (100, at(0), failures(1, 100)),
        (110, at(10), failures(2, 100)),
        // The period began at `since`.
        (200, at(100), failures(3, 100)),
        // The period began before `since`.
        (201, at(100).plus(MICRO), failures(1, 201)),
        (202, at(102), failures(2, 201)),
    ] {
        let recorded = people.record_failure(digest(1), at(seconds), since).await;
        assert_eq!(recorded.unwrap(), expected);
    }
    let mut other = digest(1);
    other[31] ^= 1;
    let recorded = people.record_failure(other, at(300), at(0)).await;
    assert_eq!(recorded.unwrap(), failures(1, 300));
    for (digest, since, expected) in [
        (digest(1), at(0), Some(failures(2, 201))),
        (digest(1), at(201), Some(failures(2, 201))),
        (digest(1), at(201).plus(MICRO), None),
        (other, at(201), Some(failures(1, 300))),
        (self::digest(2), at(0), None),
    ] {
        assert_eq!(people.failures(digest, since).await.unwrap(), expected);
    }
    people.clear_failures(digest(1)).await.unwrap();
    people.clear_failures(digest(2)).await.unwrap();
    assert_eq!(people.failures(digest(1), at(0)).await.unwrap(), None);
    assert_eq!(
        people.failures(other, at(0)).await.unwrap(),
        Some(failures(1, 300))
    );
    let recorded = concurrently(8, |_| {
        let people = people.clone();
        Box::pin(async move { people.record_failure(digest(3), at(1), at(0)).await.unwrap() })
    })
    .await;
    let mut counts: Vec<u32> = recorded.iter().map(|failures| failures.count).collect();
    counts.sort_unstable();
    assert_eq!(counts, [1, 2, 3, 4, 5, 6, 7, 8]);
}

/// Checks that a sweep deletes at most `limit` links and `limit` periods of failures that ended
/// before a time. Invitations stay 30 days longer.
pub async fn sweep_deletes_ended_rows(factory: Factory) {
    let storage = factory.open().await;
    accounts(&storage, 2).await;
    let before = at(100 * 24 * 60 * 60);
    let retained = before.minus(30 * DAY);
    for (number, account) in [(1, 1), (2, 1), (3, 2), (4, 2)] {
        let new = member(number, account, MemberRole::Member);
        storage.members.add(new).await.unwrap();
    }
    for (number, expires_at) in [(1, before), (2, before.minus(MICRO)), (3, before.minus(40 * DAY))] {
        let new = SignInLink {
            expires_at,
            ..link(number, to_member(number))
        };
        create(&storage, new).await;
    }
    for (number, expires_at) in [
        (1, before.minus(MICRO)),
        (2, retained),
        (3, retained.minus(MICRO)),
        (4, retained.minus(DAY)),
    ] {
        let new = SignInLink {
            expires_at,
            ..invitation(number + 10, number)
        };
        create(&storage, new).await;
    }
    // Periods of one day that end at `before`, immediately before it, and earlier.
    let begins = [before.minus(DAY), before.minus(DAY).minus(MICRO), START];
    for (number, at) in (1..).zip(begins) {
        let recorded = storage.people.record_failure(digest(number), at, at.minus(DAY));
        assert_eq!(recorded.await.unwrap().count, 1);
    }
    let sweep = async |limit| storage.people.sweep(before, limit).await.unwrap();
    assert_eq!(sweep(0).await, 0);
    assert_eq!(sweep(1).await, 2);
    assert_eq!(sweep(2).await, 3);
    assert_eq!(sweep(2).await, 1);
    assert_eq!(sweep(2).await, 0);
    let invitations = async |number| {
        let listed = storage.people.invitations(account(number).id).await.unwrap();
        listed.iter().map(|one| one.member.as_u128()).collect::<Vec<_>>()
    };
    assert_eq!(invitations(1).await, [1, 2]);
    assert_eq!(invitations(2).await, [0_u128; 0]);
    for (number, exists) in [(1, true), (2, false), (3, false)] {
        let failures = storage.people.failures(digest(number), START).await.unwrap();
        assert_eq!(failures.is_some(), exists, "{number}");
        let attempt = Redemption {
            at: START,
            ..redemption(number)
        };
        let outcome = redeem(&storage, attempt).await;
        assert_eq!(outcome != RedemptionOutcome::Gone, exists, "{number}");
    }
    // A current period and a valid link stay.
    let recorded = storage
        .people
        .record_failure(digest(9), before, before.minus(DAY));
    recorded.await.unwrap();
    create(
        &storage,
        SignInLink {
            expires_at: before.plus(DAY),
            ..link(9, to_owner(2))
        },
    )
    .await;
    assert_eq!(sweep(9).await, 0);
}
