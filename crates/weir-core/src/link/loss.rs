//! Random loss: Bernoulli and Gilbert-Elliott.
//!
//! # Model
//! Gilbert-Elliott is a Markov chain with a good and a bad state. For each packet, the chain first
//! moves (from good to bad with probability p, from bad to good with r); then the packet is lost
//! with the probability of the current state (K in good, H in bad). The chain starts in the good
//! state. In the long run, the fraction of packets in the bad state is p/(p+r).
//!
//! # Reference
//! E. N. Gilbert, "Capacity of a burst-noise channel", BSTJ 39 (1960); E. O. Elliott, BSTJ 42
//! (1963). Parameters as in dummynet's `plr K,p,H,r`.

use alloc::boxed::Box;

use super::Loss;
use crate::rng::Stream;

#[derive(Clone, Debug)]
pub(crate) struct LossProcess {
    model: Loss,
    /// Whether the Gilbert-Elliott chain is in the bad state.
    bad: bool,
    stream: Stream,
}

impl LossProcess {
    pub(crate) fn new(model: Loss, stream: Stream) -> Self {
        Self { model, bad: false, stream }
    }

    /// The process for `model`; `None` for a model without loss. An existing process keeps its
    /// random stream, and its chain restarts in the good state if the model changed.
    pub(crate) fn configure(
        old: Option<Box<Self>>,
        model: Loss,
        stream: impl FnOnce() -> Stream,
    ) -> Option<Box<Self>> {
        match (old, model) {
            (_, Loss::None) => None,
            (None, _) => Some(Box::new(Self::new(model, stream()))),
            (Some(mut process), _) => {
                if model != process.model {
                    (process.model, process.bad) = (model, false);
                }
                Some(process)
            }
        }
    }

    /// Advances the process by one packet. Returns whether that packet is lost.
    pub(crate) fn next_is_lost(&mut self) -> bool {
        match self.model {
            Loss::None => false,
            Loss::Bernoulli(p) => self.stream.happens(p),
            Loss::GilbertElliott { loss_in_good, good_to_bad, loss_in_bad, bad_to_good } => {
                let transition = if self.bad { bad_to_good } else { good_to_bad };
                self.bad ^= self.stream.happens(transition);
                self.stream.happens(if self.bad { loss_in_bad } else { loss_in_good })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Purpose;
    use crate::units::Probability;
    use alloc::vec::Vec;

    fn p(x: f64) -> Probability {
        Probability::new(x).unwrap()
    }

    fn run(model: Loss, seed: u64, n: usize) -> Vec<bool> {
        let mut process = LossProcess::new(model, Stream::new(seed, 0, Purpose::Loss));
        (0..n).map(|_| process.next_is_lost()).collect()
    }

    #[test]
    fn bernoulli_loses_the_configured_share() {
        let lost =
            run(Loss::Bernoulli(p(0.01)), 1, 1_000_000).iter().filter(|&&l| l).count() as f64;
        // Within four standard deviations of the binomial distribution.
        assert!((lost - 10_000.0).abs() < 4.0 * libm::sqrt(9_900.0), "{lost}");
    }

    #[test]
    fn gilbert_elliott_has_the_expected_loss_and_burst_length() {
        let model = Loss::GilbertElliott {
            loss_in_good: p(0.0),
            good_to_bad: p(0.01),
            loss_in_bad: p(1.0),
            bad_to_good: p(0.25),
        };
        let losses = run(model, 2, 1_000_000);
        let lost = losses.iter().filter(|&&l| l).count() as f64;
        let bursts = losses.windows(2).filter(|w| !w[0] && w[1]).count() as f64;
        // The fraction in the bad state is p / (p + r), and the mean burst is 1 / r.
        let share = 0.01 / 0.26;
        assert!((lost / 1e6 - share).abs() < 0.001, "{lost}");
        assert!((lost / bursts - 4.0).abs() < 0.15, "mean burst {}", lost / bursts);
    }

    #[test]
    fn one_seed_gives_one_sequence() {
        let model = Loss::Bernoulli(p(0.3));
        assert_eq!(run(model, 9, 1000), run(model, 9, 1000));
        assert_ne!(run(model, 9, 1000), run(model, 10, 1000));
    }
}
