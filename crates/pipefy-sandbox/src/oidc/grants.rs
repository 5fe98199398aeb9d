//! What people and clients were granted: codes, device codes, refresh tokens, access tokens.
//!
//! A grant is one sign-in of one person through one client. Refresh tokens belong to it and are used once; a second use, or
//! a second use of its code, ends it. A grant that has ended takes its access tokens along.

use super::clients::{Client, Role};
use super::keys::Keys;
use super::{Failure, Form};
use crate::json::text;
use crate::oauth::{fingerprint, new_secret};
use crate::store::{By, Links, Store, entropy};
use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};

/// The audience of the API: a token without it does not open the sandbox's GraphQL endpoints.
pub const API_AUDIENCE: &str = "pipefy";

pub(crate) const DEVICE_CODE: &str = "urn:ietf:params:oauth:grant-type:device_code";
pub(crate) const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
const JWT: &str = "urn:ietf:params:oauth:token-type:jwt";

/// Seconds that things are good for.
pub(crate) const ACCESS_LIFE: i64 = 300;
const SESSION_LIFE: i64 = 1800;
const OFFLINE_LIFE: i64 = 30 * 24 * 3600;
const CODE_LIFE: i64 = 60;
const LOGIN_LIFE: i64 = 600;
const DEVICE_LIFE: i64 = 600;

/// Seconds between two polls of a device.
const POLL_INTERVAL: i64 = 1;

/// Issues and judges tokens at one moment.
pub(crate) struct Desk<'a> {
    pub(crate) store: &'a Store,
    pub(crate) keys: &'a Keys,
    pub(crate) issuer: &'a str,
    /// Unix milliseconds.
    pub(crate) now_ms: i64,
}

/// What a sign-in asks for.
pub(crate) struct Wish {
    pub(crate) client_id: String,
    pub(crate) scope: String,
    pub(crate) resource: Option<String>,
}

impl Wish {
    /// Reads `scope` and `resource`; every scope that is well-formed is granted.
    pub(crate) fn read(client_id: &str, form: &Form) -> Result<Self, Failure> {
        let scope: Vec<&str> = form.get("scope").unwrap_or_default().split_whitespace().collect();
        if scope.len() > 50
            || scope.iter().any(|one| one.len() > 100 || !one.bytes().all(|byte| byte.is_ascii_graphic()))
        {
            return Err(Failure::bad("invalid_scope", "The scope is not a list of names"));
        }
        let resource = form.get("resource").map(str::to_owned);
        if resource.as_deref().is_some_and(|uri| !uri.contains("://") || uri.contains('#')) {
            return Err(Failure::bad("invalid_target", "The resource is not an absolute URI without a fragment"));
        }
        Ok(Self { client_id: client_id.to_owned(), scope: scope.join(" "), resource })
    }

    fn body(&self) -> Value {
        json!({ "client_id": self.client_id, "scope": self.scope, "resource": self.resource })
    }
}

fn int(body: &Value, key: &str) -> i64 {
    body.get(key).and_then(Value::as_i64).unwrap_or_default()
}

fn merged(mut body: Value, more: Value) -> Value {
    if let (Some(body), Value::Object(more)) = (body.as_object_mut(), more) {
        body.extend(more);
    }
    body
}

impl Desk<'_> {
    fn now(&self) -> i64 {
        self.now_ms.div_euclid(1000)
    }

    /// Remembers a sign-in that waits for its person; gives the ticket of the form.
    pub(crate) fn open_login(&self, wish: &Wish, details: Value) -> Result<String, Failure> {
        self.sweep()?;
        let ticket = new_secret();
        let body = merged(merged(wish.body(), details), json!({ "until": self.now() + LOGIN_LIFE }));
        self.store.put("oidc_login", &fingerprint(&ticket), &Links::default(), &body)?;
        Ok(ticket)
    }

    /// The sign-in behind a ticket, once.
    pub(crate) fn take_login(&self, ticket: &str) -> Result<Option<Value>, Failure> {
        self.take("oidc_login", ticket)
    }

    /// A code for the person who has signed in.
    pub(crate) fn issue_code(&self, login: &Value, user: &str) -> Result<String, Failure> {
        let code = new_secret();
        let body = merged(login.clone(), json!({ "user": user, "until": self.now() + CODE_LIFE }));
        self.store.put("oidc_code", &fingerprint(&code), &Links::default(), &body)?;
        Ok(code)
    }

    fn take(&self, kind: &str, secret: &str) -> Result<Option<Value>, Failure> {
        let id = fingerprint(secret);
        let Some(body) = self.store.get(kind, &id)? else { return Ok(None) };
        self.store.delete(kind, &id)?;
        Ok((int(&body, "until") > self.now()).then_some(body))
    }

    /// Removes what was never used.
    fn sweep(&self) -> Result<(), Failure> {
        for kind in ["oidc_login", "oidc_code", "oidc_used_code", "oidc_device", "oidc_refresh", "oidc_revoked"] {
            for (id, body) in self.store.all(kind)? {
                if int(&body, "until") <= self.now() {
                    self.store.delete(kind, &id)?;
                }
            }
        }
        Ok(())
    }

    /// The user id of one of the people.
    pub(crate) fn person(&self, email: &str) -> Result<Option<String>, Failure> {
        if !crate::people::people().iter().any(|person| person.email == email) {
            return Ok(None);
        }
        Ok(self.store.list("user", By::Group, email)?.into_iter().next().map(|(id, _)| id))
    }

    /// Starts a device sign-in (RFC 8628).
    pub(crate) fn start_device(&self, client: &Client, form: &Form) -> Result<Value, Failure> {
        if client.role != Role::Public {
            return Err(Failure::bad("unauthorized_client", "This client does not sign people in"));
        }
        self.sweep()?;
        let wish = Wish::read(&client.id, form)?;
        let (device_code, user_code) = (new_secret(), user_code());
        let body = merged(wish.body(), json!({ "until": self.now() + DEVICE_LIFE, "polled": 0 }));
        let links = Links::default().group(&user_code);
        self.store.put("oidc_device", &fingerprint(&device_code), &links, &body)?;
        let page = format!("{}/device", self.issuer);
        Ok(json!({
            "device_code": device_code, "user_code": user_code, "verification_uri": page,
            "verification_uri_complete": format!("{page}?user_code={user_code}"),
            "expires_in": DEVICE_LIFE, "interval": POLL_INTERVAL,
        }))
    }

    /// A person's answer to a device; whether there is such a device that still waits.
    pub(crate) fn answer_device(&self, user_code: &str, user: Option<&str>) -> Result<bool, Failure> {
        let typed: String =
            user_code.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_uppercase();
        let Some((head, tail)) = typed.split_at_checked(4) else { return Ok(false) };
        let waiting = self.store.list("oidc_device", By::Group, &format!("{head}-{tail}"))?.into_iter().next();
        let Some((id, body)) = waiting else { return Ok(false) };
        if int(&body, "until") <= self.now() || body.get("user").is_some() || body.get("denied").is_some() {
            return Ok(false);
        }
        let answer = user.map_or_else(|| json!({ "denied": true }), |user| json!({ "user": user }));
        self.store.update("oidc_device", &id, &merged(body, answer))?;
        Ok(true)
    }

    /// Answers a token request of an authenticated client.
    pub(crate) fn grant(&self, client: &Client, form: &Form) -> Result<Value, Failure> {
        match (form.get("grant_type").unwrap_or_default(), client.role) {
            ("authorization_code", Role::Public) => self.redeem_code(client, form),
            ("refresh_token", Role::Public) => self.refresh(client, form),
            (DEVICE_CODE, Role::Public) => self.poll_device(client, form),
            ("client_credentials", Role::Account) => self.account_token(client, form),
            (TOKEN_EXCHANGE, Role::Exchanger) => self.exchange(client, form),
            ("authorization_code" | "refresh_token" | DEVICE_CODE | "client_credentials" | TOKEN_EXCHANGE, _) => {
                Err(Failure::bad("unauthorized_client", "This client may not use this grant"))
            }
            _ => Err(Failure::bad("unsupported_grant_type", "The grant type is not supported")),
        }
    }

    fn redeem_code(&self, client: &Client, form: &Form) -> Result<Value, Failure> {
        let invalid = |why: &str| Failure::bad("invalid_grant", why);
        let code = form.need("code")?;
        let Some(body) = self.take("oidc_code", code)? else {
            // A code that comes twice was stolen by one of the two.
            if let Some(used) = self.store.get("oidc_used_code", &fingerprint(code))? {
                self.end(text(&used, "grant"))?;
            }
            return Err(invalid("The code is unknown, used or expired"));
        };
        if text(&body, "client_id") != client.id {
            return Err(invalid("The code was issued to another client"));
        }
        if form.get("redirect_uri") != Some(text(&body, "redirect_uri")) {
            return Err(invalid("The redirect_uri is not the one of the authorization request"));
        }
        let verifier = form.need("code_verifier")?;
        let challenge = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier.as_bytes()));
        if !(43..=128).contains(&verifier.len()) || challenge != text(&body, "challenge") {
            return Err(invalid("The code_verifier does not fit the code_challenge"));
        }
        if form.get("resource").is_some_and(|resource| resource != text(&body, "resource")) {
            return Err(Failure::bad("invalid_target", "The resource is not the one of the authorization request"));
        }
        let grant = self.new_grant(&body)?;
        let used = json!({ "grant": grant, "until": self.now() + SESSION_LIFE });
        self.store.put("oidc_used_code", &fingerprint(code), &Links::default(), &used)?;
        self.tokens(&grant, &body)
    }

    fn poll_device(&self, client: &Client, form: &Form) -> Result<Value, Failure> {
        let device_code = form.need("device_code")?;
        let id = fingerprint(device_code);
        let body = self.store.get("oidc_device", &id)?.filter(|body| text(body, "client_id") == client.id);
        let Some(body) = body else { return Err(Failure::bad("invalid_grant", "The device code is unknown or used")) };
        if int(&body, "until") <= self.now() {
            return Err(Failure::bad("expired_token", "The device code has expired"));
        }
        if body.get("denied").is_some() {
            self.store.delete("oidc_device", &id)?;
            return Err(Failure::bad("access_denied", "The person refused"));
        }
        if body.get("user").is_none() {
            // A client that keeps the interval may still arrive a little early.
            let early = self.now_ms - int(&body, "polled") < POLL_INTERVAL * 1000 - 200;
            self.store.update("oidc_device", &id, &merged(body, json!({ "polled": self.now_ms })))?;
            return Err(match early {
                true => Failure::bad("slow_down", "Polled too often"),
                false => Failure::bad("authorization_pending", "Nobody has answered yet"),
            });
        }
        self.store.delete("oidc_device", &id)?;
        let grant = self.new_grant(&body)?;
        self.tokens(&grant, &body)
    }

    fn refresh(&self, client: &Client, form: &Form) -> Result<Value, Failure> {
        let invalid = || Failure::bad("invalid_grant", "The refresh token is unknown, used, expired or revoked");
        let id = fingerprint(form.need("refresh_token")?);
        let token = self.store.get("oidc_refresh", &id)?.ok_or_else(invalid)?;
        let id_of_grant = text(&token, "grant").to_owned();
        let grant = self.store.get("oidc_grant", &id_of_grant)?.ok_or_else(invalid)?;
        if text(&grant, "client_id") != client.id || int(&token, "until") <= self.now() {
            return Err(invalid());
        }
        if token.get("used").is_some() {
            self.end(&id_of_grant)?;
            return Err(invalid());
        }
        let mut granted = grant;
        if let Some(narrower) = form.get("scope") {
            let has: Vec<&str> = text(&granted, "scope").split(' ').collect();
            if !narrower.split_whitespace().all(|scope| has.contains(&scope)) {
                return Err(Failure::bad("invalid_scope", "A refresh cannot widen the scope"));
            }
            granted = merged(granted, json!({ "scope": narrower.split_whitespace().collect::<Vec<_>>().join(" ") }));
        }
        self.store.update("oidc_refresh", &id, &merged(token, json!({ "used": true })))?;
        self.tokens(&id_of_grant, &granted)
    }

    fn new_grant(&self, body: &Value) -> Result<String, Failure> {
        let grant = new_secret();
        let kept = json!({
            "client_id": text(body, "client_id"), "scope": text(body, "scope"), "resource": body.get("resource"),
            "user": text(body, "user"), "nonce": body.get("nonce"), "since": self.now(),
        });
        self.store.put("oidc_grant", &grant, &Links::default(), &kept)?;
        Ok(grant)
    }

    fn end(&self, grant: &str) -> Result<(), Failure> {
        self.store.delete("oidc_grant", grant)?;
        Ok(())
    }

    /// All tokens of a person's grant.
    fn tokens(&self, grant: &str, body: &Value) -> Result<Value, Failure> {
        let scope = text(body, "scope");
        let has = |name: &str| scope.split(' ').any(|one| one == name);
        let user = self.store.get("user", text(body, "user"))?;
        let user = user.ok_or_else(|| Failure::bad("invalid_grant", "The person is gone"))?;
        let client_id = text(body, "client_id");
        let mut audience = vec![API_AUDIENCE];
        audience.extend(body.get("resource").and_then(Value::as_str));
        let access = self.access_token(&user, client_id, &audience, scope, ACCESS_LIFE, json!({ "sid": grant }))?;
        let refresh = new_secret();
        let life = if has("offline_access") { OFFLINE_LIFE } else { SESSION_LIFE };
        let kept = json!({ "grant": grant, "until": self.now() + life });
        self.store.put("oidc_refresh", &fingerprint(&refresh), &Links::parent(grant), &kept)?;
        let answer = json!({
            "access_token": access, "token_type": "Bearer", "expires_in": ACCESS_LIFE, "refresh_token": refresh,
            "refresh_expires_in": life, "scope": scope,
        });
        if !has("openid") {
            return Ok(answer);
        }
        let mut claims = json!({
            "iss": self.issuer, "aud": client_id, "azp": client_id, "sub": text(&user, "uuid"), "sid": grant,
            "iat": self.now(), "exp": self.now() + ACCESS_LIFE, "email": text(&user, "email"), "name": text(&user, "name"),
        });
        if let Some(nonce) = body.get("nonce").filter(|nonce| nonce.is_string()) {
            claims = merged(claims, json!({ "nonce": nonce }));
        }
        Ok(merged(answer, json!({ "id_token": self.keys.sign(&claims)? })))
    }

    fn account_token(&self, client: &Client, form: &Form) -> Result<Value, Failure> {
        let gone = || Failure::client("The service account is gone");
        let user = self.store.get("user", client.user.as_deref().unwrap_or_default())?.ok_or_else(gone)?;
        let wish = Wish::read(&client.id, form)?;
        let life = client.life.unwrap_or(ACCESS_LIFE);
        let mut audience = vec![API_AUDIENCE];
        audience.extend(wish.resource.as_deref());
        let access = self.access_token(&user, &client.id, &audience, &wish.scope, life, json!({}))?;
        Ok(json!({ "access_token": access, "token_type": "Bearer", "expires_in": life, "scope": wish.scope }))
    }

    /// A token for the same person, made for this client and another audience (RFC 8693).
    fn exchange(&self, client: &Client, form: &Form) -> Result<Value, Failure> {
        let subject = form.need("subject_token")?;
        if !matches!(form.need("subject_token_type")?, ACCESS_TOKEN | JWT) {
            return Err(Failure::bad("invalid_request", "Only access tokens can be exchanged"));
        }
        if form.get("requested_token_type").is_some_and(|wanted| !matches!(wanted, ACCESS_TOKEN | JWT)) {
            return Err(Failure::bad("invalid_request", "Only access tokens are issued"));
        }
        let invalid = || Failure::bad("invalid_grant", "The subject_token is not a valid access token of this issuer");
        let claims = self.valid(subject)?.ok_or_else(invalid)?;
        let user = self.user_of(&claims)?.ok_or_else(invalid)?;
        let claims = Value::Object(claims);
        let had: Vec<&str> = text(&claims, "scope").split_whitespace().collect();
        let wish = Wish::read(&client.id, form)?;
        let scope = match form.get("scope") {
            None => had.join(" "),
            Some(_) if wish.scope.split_whitespace().all(|scope| had.contains(&scope)) => wish.scope.clone(),
            Some(_) => return Err(Failure::bad("invalid_scope", "An exchange cannot widen the scope")),
        };
        let mut audience: Vec<&str> = form.all("audience").collect();
        audience.extend(form.all("resource"));
        if audience.is_empty() {
            audience.push(API_AUDIENCE);
        }
        let life = (int(&claims, "exp") - self.now()).min(ACCESS_LIFE);
        let mut more = json!({ "act": { "sub": client.id } });
        if let Some(sid) = claims.get("sid") {
            more = merged(more, json!({ "sid": sid }));
        }
        let access = self.access_token(&user, &client.id, &audience, &scope, life, more)?;
        Ok(json!({
            "access_token": access, "issued_token_type": ACCESS_TOKEN, "token_type": "Bearer", "expires_in": life, "scope": scope,
        }))
    }

    /// A signed access token.
    pub(crate) fn access_token(
        &self,
        user: &Value,
        client_id: &str,
        audience: &[&str],
        scope: &str,
        life: i64,
        more: Value,
    ) -> Result<String, Failure> {
        let aud = match audience {
            [one] => json!(one),
            several => json!(several),
        };
        let claims = json!({
            "iss": self.issuer, "sub": text(user, "uuid"), "azp": client_id, "aud": aud, "scope": scope, "iat": self.now(),
            "exp": self.now() + life, "jti": new_secret(), "email": text(user, "email"),
        });
        Ok(self.keys.sign(&merged(claims, more))?)
    }

    /// The claims of an access token that counts now.
    fn valid(&self, token: &str) -> Result<Option<Map<String, Value>>, Failure> {
        let Some(claims) = self.keys.claims(token) else { return Ok(None) };
        let is = |key: &str, value: &str| claims.get(key).and_then(Value::as_str) == Some(value);
        let number = |key: &str| claims.get(key).and_then(Value::as_i64);
        let timely =
            number("exp").is_some_and(|exp| exp > self.now()) && number("nbf").is_none_or(|nbf| nbf <= self.now());
        // An ID token is not an access token, although the same key has signed it.
        if !is("iss", self.issuer) || !timely || claims.get("jti").is_none() {
            return Ok(None);
        }
        let named = |key: &str| claims.get(key).and_then(Value::as_str).unwrap_or_default();
        if self.store.get("oidc_revoked", &fingerprint(named("jti")))?.is_some() {
            return Ok(None);
        }
        if claims.contains_key("sid") && self.store.get("oidc_grant", named("sid"))?.is_none() {
            return Ok(None);
        }
        Ok(Some(claims))
    }

    fn user_of(&self, claims: &Map<String, Value>) -> Result<Option<Value>, Failure> {
        let uuid = claims.get("sub").and_then(Value::as_str).unwrap_or_default();
        match self.store.id_of_uuid("user", uuid)? {
            Some(id) => Ok(self.store.get("user", &id)?),
            None => Ok(None),
        }
    }

    /// The user who opens the API with this access token.
    pub(crate) fn api_user(&self, token: &str) -> Result<Option<Value>, Failure> {
        let Some(claims) = self.valid(token)? else { return Ok(None) };
        let fits = match claims.get("aud") {
            Some(Value::String(aud)) => aud == API_AUDIENCE,
            Some(Value::Array(several)) => several.iter().any(|aud| aud == API_AUDIENCE),
            _ => false,
        };
        if fits { self.user_of(&claims) } else { Ok(None) }
    }

    /// Ends what a token stands for (RFC 7009). Unknown tokens are no error.
    pub(crate) fn revoke(&self, client: &Client, token: &str) -> Result<(), Failure> {
        if let Some(refresh) = self.store.get("oidc_refresh", &fingerprint(token))? {
            let grant = text(&refresh, "grant");
            let owner = self.store.get("oidc_grant", grant)?;
            if owner.is_some_and(|owner| text(&owner, "client_id") == client.id) {
                self.end(grant)?;
            }
            return Ok(());
        }
        let Some(claims) = self.valid(token)? else { return Ok(()) };
        let claims = Value::Object(claims);
        if text(&claims, "azp") == client.id {
            let body = json!({ "until": int(&claims, "exp") });
            self.store.put("oidc_revoked", &fingerprint(text(&claims, "jti")), &Links::default(), &body)?;
        }
        Ok(())
    }
}

/// Eight letters in two groups; none that form words or look alike.
fn user_code() -> String {
    const LETTERS: &[u8] = b"BCDFGHJKLMNPQRSTVWXZ";
    let mut bits = entropy();
    let mut code = String::with_capacity(9);
    for place in 0..8 {
        if place == 4 {
            code.push('-');
        }
        let letter = LETTERS.get((bits % LETTERS.len() as u64) as usize).copied().unwrap_or(b'B');
        bits /= LETTERS.len() as u64;
        code.push(char::from(letter));
    }
    code
}
