# frozen_string_literal: true

require "etc"
require "openssl"

module NeverBlockTest
  # A certificate authority for the tests and a certificate for "localhost" that it signed, as files in a folder.
  #
  #   Certificates.write(folder, owner: "postgres")   # ca.crt, server.crt, server.key
  module Certificates
    DAY = 86_400

    class << self
      # @param folder [String]
      # @param owner [String, nil] the user that gets the key, if this process is root's
      # @param names [String] whose the server's certificate is
      # @return [void]
      def write(folder, owner: nil, names: "DNS:localhost")
        authority_key, key = Array.new(2) { OpenSSL::PKey::EC.generate("prime256v1") }
        authority = certificate("tests #{rand(1 << 60)}", authority_key, nil, authority_key, "basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign")
        server = certificate("localhost", key, authority, authority_key, "subjectAltName=#{names}")
        File.write("#{folder}/ca.crt", authority.to_pem)
        File.write("#{folder}/server.crt", server.to_pem)
        File.write("#{folder}/server.key", key.to_pem, perm: 0o600)
        File.chown(Etc.getpwnam(owner).uid, nil, "#{folder}/server.key") if owner && Process.uid.zero?
      end

      private

      def certificate(name, key, issuer, issuer_key, *extensions)
        OpenSSL::X509::Certificate.new.tap do |certificate|
          certificate.version = 2
          certificate.serial = rand(1 << 60)
          certificate.subject = OpenSSL::X509::Name.new([["CN", name]])
          certificate.issuer = (issuer || certificate).subject
          certificate.public_key = key
          certificate.not_before = Time.now - DAY
          certificate.not_after = Time.now + DAY
          factory = OpenSSL::X509::ExtensionFactory.new(issuer || certificate, certificate)
          extensions.each { |extension| certificate.add_extension(factory.create_ext_from_string(extension)) }
          certificate.sign(issuer_key, "SHA256")
        end
      end
    end
  end
end
