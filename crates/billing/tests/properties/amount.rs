//! A hold of a known amount reserves exactly that amount, or nothing.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tollgate_billing::{FixedTerms, Hold, HoldRequest};
use tollgate_storage::{Grant, LedgerStore, LotTerms};
use tollgate_types::id::TransferId;
use tollgate_types::{
    AccountId, Credits, ErrorCode, HoldId, KeyId, PriceVersion, Prices, Principal, RequestId, Timestamp,
};

use crate::ledger::TestLedger;
use crate::ready;

const ACCOUNT: AccountId = AccountId::from_u128(1);
const VERSION: PriceVersion = PriceVersion::from_u64(7);

fn request(max_cost: Option<Credits>) -> HoldRequest {
    HoldRequest {
        account: ACCOUNT,
        principal: Principal::Key(KeyId::from_u128(1)),
        request: RequestId::from_u128(2),
        hold: None,
        public_model: "compose".into(),
        endpoint: "/v1/videos/compose",
        max_cost,
        accepted_at: Timestamp::from_micros(0),
        ahead: Duration::ZERO,
        lifetime: Duration::from_secs(60),
    }
}

proptest! {
    #[test]
    fn an_amount_is_held_whole_or_refused(
        balance in 1..1_000_i64,
        amount in 0..1_200_i64,
        maximum in prop::option::of(0..1_200_i64),
        weekly in prop_oneof![Just(0), 1..500_i64],
    ) {
        let ledger = TestLedger::of(&[ACCOUNT], &[(VERSION, Prices::free())]);
        let grant = Grant {
            id: TransferId::from_u128(1),
            account: ACCOUNT,
            amount: Credits::from_nanos(balance),
            at: Timestamp::from_micros(0),
            terms: LotTerms::default(),
        };
        ready(ledger.grant(grant)).unwrap();
        if weekly > 0 {
            ledger.subscribe(ACCOUNT, weekly);
        }
        let terms = FixedTerms { price_version: VERSION, not_covered_by: Arc::default() };
        let at = Timestamp::from_micros(0);
        let available = ready(ledger.spendable(ACCOUNT, Arc::default(), at)).unwrap().total();
        let (before, wanted) = (ledger.pages(), Credits::from_nanos(amount));
        let request = request(maximum.map(Credits::from_nanos));
        let checked = ready(Hold::check_amount(&ledger, &request, &terms, wanted)).map_err(|error| error.code);
        prop_assert_eq!(&ledger.pages(), &before, "a look takes nothing");
        let taken = ready(Hold::take_amount(&ledger, &request, terms, wanted));
        prop_assert_eq!(checked, taken.as_ref().copied().map_err(|error| error.code));
        let pages = ledger.pages();
        match taken {
            Ok(()) => {
                prop_assert!(maximum.is_none_or(|maximum| amount <= maximum) && wanted <= available);
                let hold = &pages.open[&HoldId::from_u128(2)];
                prop_assert_eq!((hold.amount, hold.price_version), (wanted, VERSION));
            }
            Err(error) => {
                prop_assert_eq!(&pages, &before, "refused and something was written");
                let needed = error.message.contains(&wanted.to_string());
                prop_assert!(needed, "{}", error.message);
                match maximum.filter(|maximum| amount > *maximum) {
                    Some(_) => {
                        prop_assert_eq!(error.code, ErrorCode::ParameterOutOfRange);
                        prop_assert_eq!(error.param.as_deref(), Some("x-max-cost"));
                    }
                    None => {
                        prop_assert_eq!(error.code, ErrorCode::InsufficientCredits);
                        prop_assert!(wanted > available);
                        prop_assert!(error.message.contains(&available.to_string()), "{}", error.message);
                    }
                }
            }
        }
    }
}
