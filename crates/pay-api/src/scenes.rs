//! The scenes' rules: which wallet and business system serve a payment, and within which limits.

use std::collections::BTreeMap;

use flow_config::SceneConfig;
use flow_core::ids::Scene;
use flow_core::money::Money;

use crate::problem::{Code, Problem};

/// The configured scenes.
#[derive(Debug, Clone, Default)]
pub struct Scenes {
    scenes: BTreeMap<Scene, SceneConfig>,
}

impl Scenes {
    /// These scenes.
    pub fn new(scenes: BTreeMap<Scene, SceneConfig>) -> Scenes {
        Scenes { scenes }
    }

    /// The scene's rules, if it takes this amount in this currency. The deadline is judged later, against the
    /// database's clock, and only for a payment that is new: a replay after the deadline is still a replay.
    ///
    /// # Errors
    /// 422, naming the field.
    pub fn admit(
        &self,
        scene: &Scene,
        amount: i64,
        currency: &str,
    ) -> Result<(&SceneConfig, Money), Problem> {
        let rules = self.scenes.get(scene).ok_or_else(|| {
            Problem::new(Code::SceneUnknown, format!("no scene {scene} is configured; nothing was recorded"))
                .at("scene")
        })?;
        let accepted = rules.currencies.iter().find(|(accepted, _)| accepted.as_str() == currency);
        let Some((currency, limits)) = accepted else {
            let accepted: Vec<&str> = rules.currencies.keys().map(|currency| currency.as_str()).collect();
            return Err(Problem::new(
                Code::CurrencyNotAllowed,
                format!("scene {scene} takes {}; nothing was recorded", accepted.join(", ")),
            )
            .at("money.currency"));
        };
        match Money::new(amount, currency.clone()) {
            Ok(money) if limits.allows(amount) => Ok((rules, money)),
            Ok(_) | Err(_) => Err(Problem::new(
                Code::AmountOutOfRange,
                format!(
                    "scene {scene} takes {} to {} minor units of {currency}; nothing was recorded",
                    limits.min_amount, limits.max_amount
                ),
            )
            .at("money.amount")),
        }
    }
}
