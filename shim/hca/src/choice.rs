//! The device for traffic between the nodes of a job: the value of `STRAIT_HCA`.

use core::fmt;
use core::str::FromStr;

use super::soft::SoftMode;

/// The requested device.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum DeviceChoice {
    /// No device: ranks of different nodes do not communicate.
    None,
    /// The software HCA, for nodes on one host.
    Soft(SoftMode),
    /// RDMA devices through libibverbs. Rank `i` takes the `i`-th of these, and starts again at the
    /// first when they run out. An empty list means the first usable device.
    Verbs(Vec<Rail>),
    /// The software HCA between nodes of one host, and the other device between hosts.
    SoftAnd(SoftMode, Box<Self>),
}

/// The kind of a device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DeviceKind {
    /// No device.
    None,
    /// The software HCA.
    Soft,
    /// A device of libibverbs.
    Verbs,
    /// Two software HCAs. Jobs on one host use them to test what the next kind does.
    SoftAndSoft,
    /// A software HCA, and a device of libibverbs.
    SoftAndVerbs,
}

impl DeviceKind {
    const ALL: [Self; 5] =
        [Self::None, Self::Soft, Self::Verbs, Self::SoftAndSoft, Self::SoftAndVerbs];

    /// Returns the name of the kind.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => NONE,
            Self::Soft => "soft",
            Self::Verbs => VERBS,
            Self::SoftAndSoft => "soft+soft",
            Self::SoftAndVerbs => "soft+verbs",
        }
    }

    /// Returns the kind of the device that reaches all peers.
    #[must_use]
    pub const fn far(self) -> Self {
        match self {
            Self::None | Self::Soft | Self::Verbs => self,
            Self::SoftAndSoft => Self::Soft,
            Self::SoftAndVerbs => Self::Verbs,
        }
    }

    /// Returns whether there are two devices.
    #[must_use]
    pub const fn is_composite(self) -> bool {
        matches!(self, Self::SoftAndSoft | Self::SoftAndVerbs)
    }

    /// Returns the kind with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl DeviceChoice {
    /// Returns the kind of the device.
    #[must_use]
    pub const fn kind(&self) -> DeviceKind {
        match self {
            Self::None => DeviceKind::None,
            Self::Soft(_) => DeviceKind::Soft,
            Self::Verbs(_) => DeviceKind::Verbs,
            Self::SoftAnd(_, far) => match **far {
                Self::Verbs(_) => DeviceKind::SoftAndVerbs,
                _ => DeviceKind::SoftAndSoft,
            },
        }
    }

    /// Returns the device that reaches all peers.
    #[must_use]
    pub fn far(self) -> Self {
        match self {
            Self::SoftAnd(_, far) => *far,
            one => one,
        }
    }
}

/// A port of an RDMA device.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rail {
    /// The device's name, as `ibv_devices` prints it.
    pub device: String,
    /// The port, from 1. `None` means the first usable port.
    pub port: Option<u8>,
}

/// The words for no device, and for the devices of libibverbs.
const NONE: &str = "none";
const VERBS: &str = "verbs";

/// The text does not name a device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NoChoice;

impl FromStr for DeviceChoice {
    type Err = NoChoice;

    fn from_str(text: &str) -> Result<Self, NoChoice> {
        let named = |text| SoftMode::ALL.into_iter().find(|mode| mode.name() == text);
        if let Some((near, far)) = text.split_once('+') {
            let (near, far) = (named(near).ok_or(NoChoice)?, far.parse()?);
            return match far {
                Self::Soft(_) | Self::Verbs(_) => Ok(Self::SoftAnd(near, Box::new(far))),
                Self::None | Self::SoftAnd(..) => Err(NoChoice),
            };
        }
        match (text.split_once(':'), named(text)) {
            (_, Some(mode)) => Ok(Self::Soft(mode)),
            (Some((VERBS, rails)), _) => {
                rails.split(',').map(Rail::from_str).collect::<Result<_, _>>().map(Self::Verbs)
            }
            (None, _) if text == VERBS => Ok(Self::Verbs(Vec::new())),
            (None, _) if text == NONE => Ok(Self::None),
            _ => Err(NoChoice),
        }
    }
}

impl FromStr for Rail {
    type Err = NoChoice;

    fn from_str(text: &str) -> Result<Self, NoChoice> {
        let (device, port) = match text.split_once(':') {
            Some((device, port)) => (device, Some(port.parse().map_err(|_| NoChoice)?)),
            None => (text, None),
        };
        let good = !device.is_empty() && port != Some(0);
        good.then(|| Self { device: device.to_owned(), port }).ok_or(NoChoice)
    }
}

/// Formats the choice as `STRAIT_HCA` has it.
impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str(NONE),
            Self::Soft(mode) => f.write_str(mode.name()),
            Self::SoftAnd(near, far) => write!(f, "{}+{far}", near.name()),
            Self::Verbs(rails) => {
                f.write_str(VERBS)?;
                rails.iter().enumerate().try_for_each(|(at, rail)| {
                    write!(f, "{}{rail}", if at == 0 { ':' } else { ',' })
                })
            }
        }
    }
}

impl fmt::Display for Rail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.device)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_read_as_it_is_written() {
        for text in [
            "none",
            "soft-inline",
            "soft-engine",
            "soft-iwarp",
            "verbs",
            "verbs:mlx5_0",
            "verbs:mlx5_0:2",
            "verbs:rxe0,rxe1:1",
            "soft-inline+verbs",
            "soft-engine+verbs:mlx5_0:2,mlx5_1",
            "soft-inline+soft-engine",
        ] {
            assert_eq!(text.parse::<DeviceChoice>().unwrap().to_string(), text);
        }
        let both = "verbs:a:2,b".parse();
        let [a, b] = [("a", Some(2)), ("b", None)]
            .map(|(device, port)| Rail { device: device.to_owned(), port });
        assert_eq!(both, Ok(DeviceChoice::Verbs(vec![a, b])));
    }

    #[test]
    fn what_names_no_device_is_no_choice() {
        for text in [
            "",
            "soft",
            "verb",
            "verbs:",
            "verbs:a,",
            "verbs:a:",
            "verbs:a:0",
            "verbs:a:b",
            "+verbs",
            "soft-inline+",
            "soft-inline+none",
            "verbs+soft-inline",
            "soft-inline+soft-inline+verbs",
        ] {
            assert_eq!(text.parse::<DeviceChoice>(), Err(NoChoice), "{text}");
        }
    }
}
