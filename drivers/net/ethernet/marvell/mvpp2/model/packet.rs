// SPDX-License-Identifier: GPL-2.0

//! What the packet processor sees in a frame: headers and checksums.

const ETHERNET: usize = 14;
const VLAN: usize = 4;
const TYPE_VLAN: u16 = 0x8100;
const TYPE_IPV4: u16 = 0x0800;
const TYPE_IPV6: u16 = 0x86dd;
const IPV4: usize = 20;
const IPV6: usize = 40;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// More fragments, or not the first one.
const FRAGMENT: u16 = 0x3fff;

// Command of a TX descriptor.
const TX_L3_OFFSET: u32 = 0x7f;
const TX_IP_WORDS_SHIFT: u32 = 8;
const TX_IP_WORDS: u32 = 0x1f;
const TX_L4_CHECKSUM_OFF: u32 = 3 << 13;
const TX_IP_CHECKSUM_OFF: u32 = 1 << 15;
const TX_UDP: u32 = 1 << 24;
const TX_IPV6: u32 = 1 << 26;

// Status of an RX descriptor.
const RX_L3_OFFSET: u32 = 0x7f;
const RX_IP_WORDS_SHIFT: u32 = 8;
const RX_L4_GOOD: u32 = 1 << 22;
const RX_IPV4_BAD: u32 = 1 << 24;
const RX_TCP: u32 = 1 << 25;
const RX_UDP: u32 = 1 << 26;
const RX_IPV4: u32 = 1 << 28;
const RX_IPV6: u32 = 1 << 30;

/// One's complement sum of `data` as big-endian words, on top of `sum`.
pub(crate) trait Sum {
    /// Computes it, not folded.
    fn sum(data: &[u8], sum: u32) -> u32;
}

fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

fn word(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(frame.get(at..at + 2)?.try_into().ok()?))
}

/// Where the transport's data is, and what it is.
#[derive(PartialEq, Eq)]
pub(crate) struct Transport {
    at: usize,
    length: usize,
    protocol: u8,
    /// Sum of the addresses, the length and the protocol.
    pseudo: u32,
}

impl Transport {
    fn new<S: Sum>(addresses: &[u8], at: usize, length: usize, protocol: u8) -> Self {
        let [high, low] = (length as u16).to_be_bytes();
        let pseudo = S::sum(&[high, low, 0, protocol], S::sum(addresses, 0));

        Self {
            at,
            length,
            protocol,
            pseudo,
        }
    }

    fn of_ipv4<S: Sum>(frame: &[u8], ip: usize, header: usize, protocol: u8) -> Option<Self> {
        let length = usize::from(word(frame, ip + 2)?).checked_sub(header)?;

        Some(Self::new::<S>(
            frame.get(ip + 12..ip + 20)?,
            ip + header,
            length,
            protocol,
        ))
    }

    fn of_ipv6<S: Sum>(frame: &[u8], ip: usize, header: usize, protocol: u8) -> Option<Self> {
        let length = (IPV6 + usize::from(word(frame, ip + 4)?)).checked_sub(header)?;

        Some(Self::new::<S>(
            frame.get(ip + 8..ip + 40)?,
            ip + header,
            length,
            protocol,
        ))
    }

    /// Folded sum of everything that the checksum covers, itself included.
    fn sum<S: Sum>(&self, frame: &[u8]) -> Option<u16> {
        let data = frame.get(self.at..self.at.checked_add(self.length)?)?;

        Some(fold(S::sum(data, self.pseudo)))
    }

    /// Where the checksum is.
    fn checksum(&self) -> usize {
        self.at + if self.protocol == UDP { 6 } else { 16 }
    }
}

/// Fills in the checksums that the `command` of a TX descriptor asks for.
///
/// Headers that are not where the command says are left alone, as nothing else
/// can be done about them. Returns the transport whose checksum is right now.
pub(crate) fn fill_checksums<S: Sum>(frame: &mut [u8], command: u32) -> Option<Transport> {
    let ip = (command & TX_L3_OFFSET) as usize;
    let header = ((command >> TX_IP_WORDS_SHIFT & TX_IP_WORDS) * 4) as usize;

    if command & (TX_IP_CHECKSUM_OFF | TX_IPV6) == 0 {
        fill_ipv4::<S>(frame, ip, header);
    }
    if command & TX_L4_CHECKSUM_OFF != 0 {
        return None;
    }
    fill_transport::<S>(frame, ip, header, command)
}

fn fill_ipv4<S: Sum>(frame: &mut [u8], ip: usize, header: usize) -> Option<()> {
    let bytes = frame.get_mut(ip..ip + header)?;

    bytes.get_mut(10..12)?.fill(0);
    let sum = !fold(S::sum(bytes, 0));
    bytes.get_mut(10..12)?.copy_from_slice(&sum.to_be_bytes());
    Some(())
}

fn fill_transport<S: Sum>(
    frame: &mut [u8],
    ip: usize,
    header: usize,
    command: u32,
) -> Option<Transport> {
    let protocol = if command & TX_UDP != 0 { UDP } else { TCP };
    let transport = if command & TX_IPV6 != 0 {
        Transport::of_ipv6::<S>(frame, ip, header, protocol)?
    } else {
        Transport::of_ipv4::<S>(frame, ip, header, protocol)?
    };
    let at = transport.checksum();

    frame.get_mut(at..at + 2)?.fill(0);
    let sum = match !transport.sum::<S>(frame)? {
        0 => 0xffff, // zero says that there is none
        sum => sum,
    };
    frame
        .get_mut(at..at + 2)?
        .copy_from_slice(&sum.to_be_bytes());
    Some(transport)
}

/// What is said of a frame in the status of its RX descriptor.
pub(crate) struct Parsed {
    /// Bits of the status.
    pub(crate) status: u32,
    /// The transport's checksum was looked at and is wrong.
    pub(crate) bad_checksum: bool,
}

impl Parsed {
    /// Nothing is known to be wrong with the transport's checksum.
    fn fine(status: u32) -> Self {
        Self {
            status,
            bad_checksum: false,
        }
    }
}

/// Looks at a frame's headers and verifies its checksums, but for that of the
/// transport that it was `filled` in for: it can't be wrong.
pub(crate) fn parse<S: Sum>(frame: &[u8], filled: Option<&Transport>) -> Parsed {
    parse_ip::<S>(frame, filled).unwrap_or(Parsed::fine((ETHERNET + 2) as u32))
}

fn parse_ip<S: Sum>(frame: &[u8], filled: Option<&Transport>) -> Option<Parsed> {
    let tag = if word(frame, 12)? == TYPE_VLAN {
        VLAN
    } else {
        0
    };
    let ip = ETHERNET + tag;
    // The Marvell header is in front of the frame.
    let offset = (ip + 2) as u32 & RX_L3_OFFSET;

    match word(frame, ip - 2)? {
        TYPE_IPV4 => parse_ipv4::<S>(frame, ip, offset, filled),
        TYPE_IPV6 => parse_ipv6::<S>(frame, ip, offset, filled),
        _ => None,
    }
}

fn parse_ipv4<S: Sum>(
    frame: &[u8],
    ip: usize,
    offset: u32,
    filled: Option<&Transport>,
) -> Option<Parsed> {
    let words = frame.get(ip)? & 0xf;
    let header = usize::from(words) * 4;
    let protocol = *frame.get(ip + 9)?;
    let mut status = offset | RX_IPV4 | u32::from(words) << RX_IP_WORDS_SHIFT;

    if header < IPV4 || fold(S::sum(frame.get(ip..ip + header)?, 0)) != 0xffff {
        status |= RX_IPV4_BAD;
    }
    if word(frame, ip + 6)? & FRAGMENT != 0 {
        return Some(Parsed::fine(status));
    }
    let transport = Transport::of_ipv4::<S>(frame, ip, header, protocol);
    Some(parse_transport::<S>(frame, transport, status, filled))
}

fn parse_ipv6<S: Sum>(
    frame: &[u8],
    ip: usize,
    offset: u32,
    filled: Option<&Transport>,
) -> Option<Parsed> {
    let protocol = *frame.get(ip + 6)?;
    let status = offset | RX_IPV6 | (IPV6 as u32 / 4) << RX_IP_WORDS_SHIFT;
    let transport = Transport::of_ipv6::<S>(frame, ip, IPV6, protocol);

    Some(parse_transport::<S>(frame, transport, status, filled))
}

fn parse_transport<S: Sum>(
    frame: &[u8],
    transport: Option<Transport>,
    status: u32,
    filled: Option<&Transport>,
) -> Parsed {
    let Some(transport) = transport else {
        return Parsed::fine(status);
    };
    let has_none = transport.protocol == UDP && word(frame, transport.checksum()) == Some(0);
    let status = match transport.protocol {
        TCP => status | RX_TCP,
        UDP => status | RX_UDP,
        _ => return Parsed::fine(status),
    };

    if filled == Some(&transport) {
        return Parsed::fine(status | RX_L4_GOOD);
    }
    match transport.sum::<S>(frame) {
        Some(0xffff) => Parsed::fine(status | RX_L4_GOOD),
        Some(_) if !has_none => Parsed {
            status,
            bad_checksum: true,
        },
        // A datagram that is not all there can't be verified either.
        _ => Parsed::fine(status),
    }
}
