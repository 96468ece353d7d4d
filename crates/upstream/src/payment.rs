//! Taking money. A payment provider shows the pages on which people pay, keeps their cards, and says in signed events
//! what was paid.

use std::fmt;

use async_trait::async_trait;
use tollgate_types::{AccountId, Course, Money, SubscriptionId, Timestamp, TopUpId};

/// Somebody who pays, as the provider is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPayer {
    /// The account.
    pub account: AccountId,
    /// Its name.
    pub name: String,
}

/// A page on which credits are paid for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCheckout {
    /// What the provider is to call it: events carry it, and sent twice it is one page.
    pub top_up: TopUpId,
    /// Who pays: the provider's id.
    pub payer: String,
    /// How much.
    pub money: Money,
    /// What it is for, as the page and the receipt have it.
    pub title: String,
    /// Where the page leads when it was paid.
    pub success_url: String,
    /// Where it leads when it was not.
    pub cancel_url: String,
}

/// How often a subscription is paid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BillingInterval {
    /// Every month.
    Month,
    /// Every year.
    Year,
}

/// A page on which a subscription is begun, which the provider then renews.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPlanCheckout {
    /// What the provider is to call it: everything that it says of the subscription carries it, and sent twice it is one page.
    pub subscription: SubscriptionId,
    /// Who pays: the provider's id.
    pub payer: String,
    /// How much for one interval.
    pub money: Money,
    /// How often.
    pub interval: BillingInterval,
    /// What it is for, as the page and the invoices have it.
    pub title: String,
    /// Where the page leads when it was paid.
    pub success_url: String,
    /// Where it leads when it was not.
    pub cancel_url: String,
}

/// A page that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkout {
    /// The provider's id of it.
    pub reference: String,
    /// Where it is.
    pub url: String,
}

/// A charge on a card that the provider keeps, without its owner being there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedCharge {
    /// Sent twice it is one charge.
    pub top_up: TopUpId,
    /// Who pays: the provider's id.
    pub payer: String,
    /// How much.
    pub money: Money,
    /// What it is for, as the receipt has it.
    pub title: String,
}

/// What became of a charge on a card that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChargeOutcome {
    /// It was paid.
    Paid(Paid),
    /// The provider is still at it; an event will say.
    Processing {
        /// The provider's id of it.
        reference: String,
    },
    /// It was not paid, and will not be.
    Declined {
        /// A word for why, such as `card_declined`.
        why: String,
    },
}

/// Something that was paid, as the provider's own record has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paid {
    /// What was said to it when it was asked for.
    pub top_up: TopUpId,
    /// The provider's id of the money that moved: the same in everything that is said of it.
    pub reference: String,
    /// How much, without taxes.
    pub money: Money,
}

/// A subscription at the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanReference {
    /// What was said to it when it was asked for; nothing where somebody else has asked.
    pub subscription: Option<SubscriptionId>,
    /// The provider's id of it.
    pub reference: String,
}

/// An invoice for a period of a subscription, as the provider's own record has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanInvoice {
    /// The provider's id of it.
    pub invoice: String,
    /// Whose.
    pub of: PlanReference,
    /// What was paid, taxes included.
    pub money: Money,
    /// When the period begins.
    pub start: Timestamp,
    /// When it is over.
    pub end: Timestamp,
}

/// How a subscription stands at the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanStanding {
    /// What becomes of it when the period is over.
    pub course: Course,
    /// Its latest invoice, if that is paid.
    pub paid: Option<PlanInvoice>,
}

/// What an event says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PaymentEvent {
    /// Something was paid.
    Paid(Paid),
    /// Something will not be paid.
    Failed {
        /// What was said to it when it was asked for.
        top_up: TopUpId,
        /// A word for why.
        why: String,
    },
    /// Money was given back, or taken back by a bank.
    Returned {
        /// The provider's id of the money that had moved.
        reference: String,
        /// All of it that went back so far.
        total: Money,
    },
    /// A period of a subscription was paid.
    PlanPaid(PlanInvoice),
    /// A period of a subscription could not be paid; the provider may try again.
    PlanNotPaid(PlanInvoice),
    /// Something about a subscription is another way; the provider says what, when it is asked.
    PlanChanged(PlanReference),
    /// A subscription has ended.
    PlanEnded(PlanReference),
    /// A page on which a subscription would have begun was not paid.
    PlanNotBegun {
        /// What was said to it when it was asked for.
        subscription: SubscriptionId,
        /// A word for why.
        why: String,
    },
    /// Nothing that concerns credits or plans.
    Other {
        /// What the provider calls it.
        kind: String,
    },
}

/// Why an event is not believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventFault {
    /// Its signature is missing or another one.
    Signature,
    /// It was signed too long ago, or in the future.
    Stale,
    /// It is signed and makes no sense.
    Malformed(String),
}

impl fmt::Display for EventFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EventFault::Signature => f.write_str("the signature is not that of the payment provider"),
            EventFault::Stale => f.write_str("the signature is too old, or from the future"),
            EventFault::Malformed(what) => write!(f, "it cannot be read: {what}"),
        }
    }
}

/// Why a payment provider did not do something; for operators, without a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaymentError {
    /// Whether doing it again may help: nobody answered, or not in time.
    pub is_transient: bool,
    /// What happened.
    pub detail: String,
}

impl fmt::Display for PaymentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for PaymentError {}

/// Takes money for credits and plans.
#[async_trait]
pub trait PaymentProvider: Send + Sync {
    /// Its name, such as `stripe`.
    fn name(&self) -> &'static str;

    /// Makes known who pays; the provider's id. Sent twice it is one payer.
    async fn create_payer(&self, payer: &NewPayer) -> Result<String, PaymentError>;

    /// Makes a page on which somebody pays.
    async fn open_checkout(&self, checkout: &NewCheckout) -> Result<Checkout, PaymentError>;

    /// The address of a page on which a payer looks at receipts and changes cards, and which leads back to another.
    async fn open_portal(&self, payer: &str, return_url: &str) -> Result<String, PaymentError>;

    /// Charges a card that the provider keeps.
    async fn charge_saved(&self, charge: &SavedCharge) -> Result<ChargeOutcome, PaymentError>;

    /// Makes a page on which somebody begins a subscription.
    async fn open_plan_checkout(&self, checkout: &NewPlanCheckout) -> Result<Checkout, PaymentError>;

    /// Has nobody pay on a page any more, by the provider's id of it; whether that is so: false when it was paid already.
    async fn close_checkout(&self, reference: &str) -> Result<bool, PaymentError>;

    /// How a subscription stands.
    async fn plan_standing(&self, reference: &str) -> Result<PlanStanding, PaymentError>;

    /// Says what is to become of a subscription when the period is over; [`Course::Ended`] ends it now. Answers what becomes of
    /// it: one that has ended stays so.
    async fn set_course(&self, reference: &str, course: Course) -> Result<Course, PaymentError>;

    /// Whether money that moved, by the provider's id of it, has paid an invoice of a subscription.
    async fn is_of_invoice(&self, reference: &str) -> Result<bool, PaymentError>;

    /// What an event says, once its signature was checked. `signature` is the header that
    /// [`signature_header`](Self::signature_header) names.
    fn read_event(
        &self,
        signature: Option<&str>,
        body: &[u8],
        now: Timestamp,
    ) -> Result<PaymentEvent, EventFault>;

    /// The name of the header that has an event's signature.
    fn signature_header(&self) -> &'static str;

    /// Whether it can be reached and knows the key; for `doctor`.
    async fn probe(&self) -> Result<(), PaymentError>;
}
