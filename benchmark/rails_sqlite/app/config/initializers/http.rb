# The client speaks no TLS.
Rails.application.config.middleware.delete ActionDispatch::SSL
