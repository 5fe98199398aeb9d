//! TLS of outgoing connections: one configuration per process.
//!
//! The system's certificates are read when the first connection needs them, not when a client is made: a process that only
//! talks to this machine, or only answers `initialize`, does without.

use std::sync::{Arc, LazyLock, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use rustls_platform_verifier::Verifier;

/// TLS 1.2 and 1.3 with the system's trusted certificates, for `reqwest::ClientBuilder::tls_backend_preconfigured`. A machine
/// without certificates fails at its first connection, with rustls' error.
pub fn client_config() -> ClientConfig {
    static CONFIG: LazyLock<ClientConfig> = LazyLock::new(|| {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let trust = SystemTrust {
            algorithms: provider.signature_verification_algorithms,
            provider: provider.clone(),
            verifier: OnceLock::new(),
        };
        let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        #[allow(clippy::expect_used, reason = "aws-lc-rs implements both versions")]
        let builder = versions.expect("the provider has the default protocol versions");
        let mut config = builder.dangerous().with_custom_certificate_verifier(Arc::new(trust)).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config
    });
    CONFIG.clone()
}

/// The platform's verifier, made when it is first asked.
#[derive(Debug)]
struct SystemTrust {
    provider: Arc<CryptoProvider>,
    algorithms: WebPkiSupportedAlgorithms,
    verifier: OnceLock<Verifier>,
}

impl SystemTrust {
    fn verifier(&self) -> Result<&Verifier, Error> {
        if let Some(verifier) = self.verifier.get() {
            return Ok(verifier);
        }
        // A failure is not kept: certificates may be installed while the process runs.
        let verifier = Verifier::new(self.provider.clone())?;
        Ok(self.verifier.get_or_init(|| verifier))
    }
}

impl ServerCertVerifier for SystemTrust {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.verifier()?.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier()?.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier()?.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn a_certificate_that_nobody_vouches_for_is_refused() {
        let config = client_config();
        let trust = SystemTrust {
            algorithms: aws_lc_rs::default_provider().signature_verification_algorithms,
            provider: Arc::new(aws_lc_rs::default_provider()),
            verifier: OnceLock::new(),
        };
        assert!(trust.verifier.get().is_none(), "nothing is read before it is needed");
        let name = ServerName::try_from("app.pipefy.com").unwrap();
        let forged = CertificateDer::from(vec![0x30, 0x03, 0x02, 0x01, 0x00]);
        assert!(trust.verify_server_cert(&forged, &[], &name, &[], UnixTime::now()).is_err());
        assert!(!trust.supported_verify_schemes().is_empty());
        assert_eq!(config.alpn_protocols, [b"h2".to_vec(), b"http/1.1".to_vec()]);
    }
}
